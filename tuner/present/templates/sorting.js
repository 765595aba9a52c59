// A click on the heading of a column sorts its table; another one turns the order round.
function keyOf(cell) {
  const text = cell ? cell.textContent.trim() : "";
  const number = Number.parseFloat(text.replaceAll(",", ""));
  return { text, number, known: text !== "" && text !== "?" };
}
function compared(one, other, turned) {
  // What is not known stays last in both orders.
  if (one.known !== other.known) return one.known ? -1 : 1;
  const both = !Number.isNaN(one.number) && !Number.isNaN(other.number);
  const order = both
    ? one.number - other.number
    : one.text.localeCompare(other.text, "en", { numeric: true });
  return turned ? -order : order;
}
for (const table of document.querySelectorAll("table[data-sortable]")) {
  const body = table.tBodies[0];
  for (const heading of table.tHead.rows[table.tHead.rows.length - 1].cells) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sorts";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const turned = heading.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.querySelectorAll("[aria-sort]")) {
        other.removeAttribute("aria-sort");
      }
      heading.setAttribute("aria-sort", turned ? "descending" : "ascending");
      const rows = [...body.rows].map((row) => [keyOf(row.cells[heading.cellIndex]), row]);
      rows.sort(([one], [other]) => compared(one, other, turned));
      body.append(...rows.map(([, row]) => row));
    });
  }
}
