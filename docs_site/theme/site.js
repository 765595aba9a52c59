// The theme puts a table that is wider than its page into a box that scrolls, which the keyboard
// could not reach.
const article = document.querySelector("article");

function letTheKeyboardIn() {
  for (const box of article.querySelectorAll(".md-typeset__scrollwrap")) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}

if (article) {
  new MutationObserver(letTheKeyboardIn).observe(article, { childList: true, subtree: true });
  new ResizeObserver(letTheKeyboardIn).observe(article);
}
