"use strict";
// Tells of the point nearest to the pointer; without it the page lacks nothing that its tables do not have.
for (const plot of document.querySelectorAll("svg[data-hover]")) {
  const series = Object.entries(JSON.parse(plot.dataset.hover));
  const box = plot.viewBox.baseVal;
  const mark = document.createElementNS(plot.namespaceURI, "g");
  const told = document.createElement("div");
  told.className = "told";
  told.hidden = true;
  plot.append(mark);
  plot.parentElement.append(told);
  const nearest = (points, x) => points.reduce((a, b) => (Math.abs(b[0] - x) < Math.abs(a[0] - x) ? b : a));
  const show = (event) => {
    const place = plot.getBoundingClientRect();
    const x = ((event.clientX - place.left) / place.width) * box.width;
    const found = series.filter(([, points]) => points.length).map(([name, points]) => [name, nearest(points, x)]);
    if (!found.length) return;
    const [at] = found[0][1];
    mark.innerHTML =
      `<line class="pin" x1="${at}" x2="${at}" y1="24" y2="${box.height - 42}"/>` +
      found.map(([, [px, py]]) => `<circle class="bead" cx="${px}" cy="${py}" r="3.5"/>`).join("");
    told.textContent = found.map(([name, [, , text]]) => (series.length > 1 ? `${name}  ${text}` : text)).join("\n");
    told.hidden = false;
    const card = plot.parentElement.getBoundingClientRect();
    const across = place.left - card.left + (at / box.width) * place.width;
    told.style.left = `${Math.max(8, Math.min(across + 12, card.width - told.offsetWidth - 8))}px`;
    told.style.top = `${place.top - card.top + 30}px`;
  };
  const hide = () => {
    mark.replaceChildren();
    told.hidden = true;
  };
  plot.addEventListener("pointermove", show);
  plot.addEventListener("pointerdown", show);
  plot.addEventListener("pointerleave", hide);
}
