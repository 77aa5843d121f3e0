// What a page does wrong for who cannot see it well, as sentences; an empty list is good.
() => {
  const wrong = [];
  const shown = (one) => one.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const called = (one) =>
    one.getAttribute("aria-label") || one.getAttribute("title") || one.textContent.trim() ||
    [...(one.labels ?? [])].map((label) => label.textContent).join("").trim();
  for (const one of document.querySelectorAll("button, a, input, select, textarea, [role=img], [role=application], [role=group]")) {
    if (shown(one) && !called(one)) wrong.push(`no name: ${one.outerHTML.slice(0, 80)}`);
  }
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) wrong.push(`two of id ${id}`);
  if (!document.documentElement.lang) wrong.push("no language");
  if (document.querySelectorAll("h1").length !== 1) wrong.push("not one h1");

  const parsed = (colour) => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const luminance = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = parsed(getComputedStyle(at).backgroundColor);
      if (colour[3] > 250) return colour;
    }
    return parsed("Canvas");
  };
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!own || !shown(one) || one.closest(".visually-hidden, noscript")) continue;
    const style = getComputedStyle(one);
    const [light, dark] = [luminance(parsed(style.color)), luminance(behind(one))].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (light + 0.05) / (dark + 0.05);
    if (ratio < (large ? 3 : 4.5)) wrong.push(`contrast ${ratio.toFixed(2)}: ${one.className} "${one.textContent.trim().slice(0, 30)}"`);
  }
  return wrong;
}
