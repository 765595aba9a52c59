// What a person would see on a page, asked of the page itself. Every check returns descriptions of
// what is wrong. Evaluated by checks.py as `checks[name](...args)`.
(() => {
  const WHITE_SPACE = /\s+/g;
  const LEAST_CONTRAST = 4.5;

  function described(element) {
    const text = (element.textContent || "").replace(WHITE_SPACE, " ").trim().slice(0, 60);
    const name = element.localName + (element.id ? `#${element.id}` : "");
    return text ? `${name} "${text}"` : name;
  }

  function isVisible(element) {
    return element.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  }

  // -- colours ----------------------------------------------------------------------------------

  // Any CSS colour, as axe-core reads it, seen through its element's opacity.
  function parsed(colour, opacity) {
    const found = new axe.commons.color.Color();
    found.parseString(colour);
    found.alpha *= opacity;
    return found;
  }

  function opacityOf(element) {
    let opacity = 1;
    for (let each = element; each; each = each.parentElement) {
      opacity *= Number(getComputedStyle(each).opacity);
    }
    return opacity;
  }

  // -- what is painted behind a point -----------------------------------------------------------

  // What one element paints at a point, as layers from the top down; a layer is a list of colours
  // where it may be any of them.
  function layersOf(element, x, y) {
    const style = getComputedStyle(element), opacity = opacityOf(element);
    if (element instanceof SVGGeometryElement) {
      const matrix = element.getScreenCTM();
      const point = new DOMPoint(x, y).matrixTransform(matrix.inverse());
      const layers = [];
      if (style.stroke !== "none" && element.isPointInStroke(point)) {
        layers.push([parsed(style.stroke, opacity * Number(style.strokeOpacity))]);
      }
      if (style.fill !== "none" && element.isPointInFill(point)) {
        layers.push([parsed(style.fill, opacity * Number(style.fillOpacity))]);
      }
      return layers;
    }
    if (element instanceof SVGElement && !(element instanceof SVGSVGElement)) return [];
    const layers = [[parsed(style.backgroundColor, opacity)]];
    const stops = style.backgroundImage.match(/(?:rgba?|color|oklch|oklab|lab|lch)\([^()]*\)/g);
    if (stops) layers.unshift(stops.map((stop) => parsed(stop, opacity)));
    return layers;
  }

  // Every colour that the page may have at a point, behind an element's own text.
  function backgrounds(element, x, y) {
    const { flattenColors } = axe.commons.color;
    const stack = document.elementsFromPoint(x, y);
    const own = stack.indexOf(element);
    const behind = own >= 0 ? stack.slice(own) : stack.filter((each) => each.contains(element));
    const base = document.createElement("div");
    base.style.backgroundColor = "Canvas";
    document.body.append(base);
    let found = [parsed(getComputedStyle(base).backgroundColor, 1)];
    base.remove();
    const layers = behind.flatMap((each) => layersOf(each, x, y));
    for (const layer of layers.reverse()) {
      found = layer.flatMap((top) => found.map((under) => flattenColors(top, under)));
      found = [...new Map(found.map((colour) => [colour.toHexString(), colour])).values()];
    }
    return found;
  }

  // -- the checks -------------------------------------------------------------------------------

  function* visibleTexts() {
    const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
    const texts = [];
    while (walker.nextNode()) texts.push(walker.currentNode);
    for (const text of texts) {
      const element = text.parentElement;
      if (!text.data.trim() || !isVisible(element)) continue;
      if (element.closest("script, style, noscript, template, svg title, svg desc, svg metadata"))
        continue;
      yield [text, element];
    }
  }

  // The middle of each line of a text. Lines of a pixel or less are meant for screen readers.
  function middles(text) {
    const range = document.createRange();
    range.selectNodeContents(text);
    return [...range.getClientRects()]
      .filter((line) => line.width > 1 && line.height > 1)
      .map((line) => [line.x + line.width / 2, line.y + line.height / 2]);
  }

  // The least contrast of an element's text with what may be behind it.
  function leastContrast(text, element) {
    const style = getComputedStyle(element);
    const isDrawn = element instanceof SVGElement;
    const opacity = opacityOf(element) * (isDrawn ? Number(style.fillOpacity) : 1);
    const ink = parsed(isDrawn ? style.fill : style.color, opacity);
    let least = Infinity;
    for (const [x, y] of middles(text)) {
      for (const paper of backgrounds(element, x, y)) {
        least = Math.min(least, axe.commons.color.getContrast(paper, ink));
      }
    }
    return least;
  }

  // Until the page's own scripts have answered a scroll.
  function settled() {
    return new Promise((done) => setTimeout(() => requestAnimationFrame(() => done()), 100));
  }

  async function lowContrastTexts() {
    // Pictures often let the pointer through; what is painted must be found all the same.
    const hittable = document.createElement("style");
    hittable.textContent =
      "* { pointer-events: auto !important; scroll-behavior: auto !important;" +
      " transition: none !important; animation: none !important; }";
    document.head.append(hittable);
    const found = [];
    for (const [text, element] of visibleTexts()) {
      element.scrollIntoView({ block: "center", inline: "center" });
      let least = leastContrast(text, element);
      if (least < LEAST_CONTRAST) {
        await settled();
        least = leastContrast(text, element);
      }
      if (least < LEAST_CONTRAST) found.push(`${least.toFixed(2)}: ${described(element)}`);
    }
    hittable.remove();
    scrollTo(0, 0);
    return found;
  }

  function tooWide() {
    const width = document.documentElement.clientWidth;
    if (document.scrollingElement.scrollWidth <= width) return [];
    const wide = [...document.body.querySelectorAll("*")].filter(
      (element) => isVisible(element) && element.getBoundingClientRect().right > width + 1,
    );
    return [`the page is ${document.scrollingElement.scrollWidth} px wide`, ...wide.map(described)];
  }

  function hasMarks(svg) {
    const marks = "path, use, text, rect, circle, ellipse, line, polyline, polygon, image";
    return [...svg.querySelectorAll(marks)].some((mark) => {
      if (mark.closest("defs, clipPath, mask, marker, pattern, symbol")) return false;
      const { width, height } = mark.getBBox();
      return isVisible(mark) && width + height > 0;
    });
  }

  function faultOfFigure(element) {
    const { width, height } = element.getBoundingClientRect();
    if (!isVisible(element)) return "is not visible";
    if (width < 1 || height < 1) return "has no size";
    if (element.localName === "svg" && !hasMarks(element)) return "has no marks";
    if (element.localName === "img" && !(element.complete && element.naturalWidth > 0))
      return "shows no image";
    if (element.localName === "figure" && !element.querySelector("svg, img, canvas, table, pre"))
      return "holds no picture";
    return null;
  }

  function emptyFigures() {
    return [...document.querySelectorAll("figure, img, svg")]
      .filter((element) => !element.parentElement.closest("svg, details:not([open])"))
      .map((element) => [element, faultOfFigure(element)])
      .filter(([, fault]) => fault)
      .map(([element, fault]) => `${described(element)} ${fault}`);
  }

  // Links and buttons that a person sees; kept, to be compared with what the keyboard reaches.
  function controls() {
    return [...document.querySelectorAll("a[*|href], button:not(:disabled), summary")].filter(
      isVisible,
    );
  }

  function beginAtTheTop() {
    scrollTo(0, 0);
    document.activeElement?.blur();
    getSelection().removeAllRanges();
    window.reachedByKeyboard = new Set();
    return controls().length;
  }

  // Whether the focus is on something that it was not on before.
  function noteFocus() {
    const reached = window.reachedByKeyboard, focused = document.activeElement;
    if (!focused || focused === document.body || reached.has(focused)) return false;
    reached.add(focused);
    return true;
  }

  function notReached() {
    return controls()
      .filter((element) => !window.reachedByKeyboard.has(element))
      .map(described);
  }

  return { lowContrastTexts, tooWide, emptyFigures, beginAtTheTop, noteFocus, notReached };
})()
