// Draws the figures of the page as charts, next to the table with the same figures.

const UNITS = { size: ["B", "kB", "MB", "GB", "TB", "PB"], number: ["", "k", "M", "G", "T", "P"] };

function scaled(value, units) {
  let unit = 0;
  let left = Math.abs(value);
  while (left >= 999.5 && unit < units.length - 1) {
    left /= 1000;
    unit += 1;
  }
  return `${value < 0 ? "−" : ""}${Number(left.toPrecision(3))} ${units[unit]}`.trim();
}

function duration(value) {
  if (value < 1000) return `${Number(value.toPrecision(3))} ms`;
  if (value < 60000) return `${Number((value / 1000).toPrecision(3))} s`;
  if (value < 3600000) return `${Number((value / 60000).toPrecision(3))} min`;
  return `${Number((value / 3600000).toPrecision(3))} h`;
}

const formats = {
  duration,
  size: (value) => scaled(value, UNITS.size),
  number: (value) => scaled(value, UNITS.number),
  value: (value) => String(Number(value.toPrecision(6))),
};

// As in tables: the day when it begins, else the time. From the widest step to the narrowest.
const DAY = "\n{YYYY}-{MM}-{DD}";
const TIMES = [
  [31536000, "{YYYY}", null, null, null, null, null, null, 1],
  [2419200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DAY, null, DAY, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DAY, null, DAY, null, null, null, 1],
  [0.001, "{ss}.{fff}", `${DAY} {HH}:{mm}`, null, DAY, null, "\n{HH}:{mm}", null, 1],
];

// Steps of a clock; decimal ones would be 6.67 min.
const SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const STEPS = { duration: [1, 2, 5, 10, 20, 50, 100, 200, 500, ...SECONDS.map((seconds) => seconds * 1000), ...[2, 5, 10, 20, 50, 100].map((days) => days * 86400000)] };

const drawn = new WeakMap();
const system = matchMedia("(prefers-color-scheme: dark)");

function colours() {
  const probe = getComputedStyle(document.documentElement);
  const resolve = (name) => {
    const element = document.createElement("i");
    element.style.color = `var(${name})`;
    document.body.append(element);
    const colour = getComputedStyle(element).color;
    element.remove();
    return colour;
  };
  return {
    text: resolve("--muted"),
    line: resolve("--line"),
    average: resolve("--busy"),
    most: resolve("--warn"),
    failed: resolve("--bad"),
    font: `12px ${probe.fontFamily}`,
  };
}

function draw(figure) {
  const canvas = figure.querySelector(".canvas");
  const values = figure.dataset.values;
  const width = Math.floor(canvas.clientWidth);
  const key = `${document.documentElement.dataset.theme} ${system.matches} ${width} ${values}`;
  if (!width || drawn.get(figure)?.key === key) return;
  drawn.get(figure)?.plot.destroy();
  const { x, lines } = JSON.parse(values);
  const colour = colours();
  const say = formats[figure.dataset.unit];
  const axis = { stroke: colour.text, font: colour.font, grid: { stroke: colour.line, width: 1 }, ticks: { show: false } };
  const strokes = { average: colour.average, most: colour.most, failed: colour.failed };
  // Without a cursor on the chart, the legend has the newest values, at the right end.
  const newest = (plot) => plot.cursor.idx == null && plot.setLegend({ idx: x.length - 1 }, false);
  const plot = new uPlot(
    {
      hooks: { ready: [newest], setCursor: [newest], setLegend: [newest] },
      width,
      height: 176,
      cursor: { points: { size: 6 } },
      tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
      axes: [
        { ...axis, space: 70, values: TIMES },
        { ...axis, size: 68, ...(STEPS[figure.dataset.unit] && { incrs: STEPS[figure.dataset.unit] }), values: (plot, ticks) => ticks.map((tick) => (tick == null ? "" : say(tick))) },
      ],
      scales: { y: { range: (plot, low, high) => (low === null ? [0, 1] : uPlot.rangeNum(low < 0 ? low : 0, high || 1, 0.1, true)) } },
      series: [
        { label: "Time", value: "{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}" },
        ...lines.map((line) => ({
          label: line.label,
          stroke: strokes[line.role],
          width: line.role === "failed" ? 0 : 1.5,
          spanGaps: true,
          points: line.role === "failed" ? { show: true, size: 7, fill: colour.failed, stroke: colour.failed } : { show: x.length < 60, size: 4 },
          value: (plot, value) => (value == null ? "–" : say(value)),
        })),
      ],
    },
    [x, ...lines.map((line) => line.values)],
    canvas,
  );
  drawn.set(figure, { key, plot });
}

export function drawCharts() {
  for (const figure of document.querySelectorAll(".chart[data-values]")) draw(figure);
}

drawCharts();
let resized = 0;
new ResizeObserver(() => {
  clearTimeout(resized);
  resized = setTimeout(drawCharts, 150);
}).observe(document.body);
new MutationObserver(drawCharts).observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
system.addEventListener("change", drawCharts);
