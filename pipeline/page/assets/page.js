// Makes the page of a clip move: seeking, the large view, arrow keys, copying. Everything can be read without it.
"use strict";

(() => {
  document.documentElement.classList.add("js");

  const one = (selector, root = document) => root.querySelector(selector);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const seconds = (text) => Number.parseFloat(text);

  const clock = (t) => {
    const tenths = Math.round(t * 10);
    const [minutes, rest] = [Math.floor(tenths / 600), tenths % 600];
    const two = (n) => String(n).padStart(2, "0");
    if (minutes < 60) return `${minutes}:${two(Math.floor(rest / 10))}.${rest % 10}`;
    return `${Math.floor(minutes / 60)}:${two(minutes % 60)}:${two(Math.floor(rest / 10))}`;
  };

  /** One tab stop for each group of links; the arrow keys, Home and End move inside it. */
  function roam(group) {
    const items = all("a[href]", group);
    const focus = (item) => {
      items.forEach((other) => other.setAttribute("tabindex", other === item ? "0" : "-1"));
      item.focus();
    };
    items.forEach((item, i) => item.setAttribute("tabindex", i === 0 ? "0" : "-1"));
    group.addEventListener("keydown", (event) => {
      const here = items.indexOf(event.target.closest("a[href]"));
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      const next = { Home: 0, End: items.length - 1 }[event.key] ?? (step ? here + step : -1);
      if (here < 0 || !items[next]) return;
      event.preventDefault();
      focus(items[next]);
      group.dispatchEvent(new CustomEvent("roam", { detail: items[next] }));
    });
    return focus;
  }

  /** Where in the clip the reader is; everything that shows a moment follows it. */
  function followTime() {
    const section = one(".timeline");
    if (!section) return null;
    const duration = seconds(section.dataset.duration);
    const [lanes, now, scrub] = [one("#lanes"), one("#now"), one("#scrub")];
    const player = one("#player");
    const screen = one("#screen");
    const frames = all(".frames a.picture");
    const ticks = all(".frame-tick");
    const spans = all(".transcript li[data-start]");
    // Boxes belong to one instant. While the clip plays they show only around it, never over another picture.
    const BOXES_HOLD_S = 0.12;

    const nearest = (t) => frames.reduce((best, frame) => {
      const distance = (f) => Math.abs(seconds(f.dataset.t) - t);
      return !best || distance(frame) < distance(best) ? frame : best;
    }, null);

    function showFrame(frame, t) {
      frames.forEach((other) => other.toggleAttribute("aria-current", false));
      ticks.forEach((tick, i) => tick.toggleAttribute("aria-current", false));
      if (!frame) return;
      frame.setAttribute("aria-current", "true");
      ticks[frames.indexOf(frame)]?.setAttribute("aria-current", "true");
      if (!screen) return;
      if (screen.dataset.frame !== frame.dataset.frame) {
        one(".overlay", screen).replaceWith(one(".overlay", frame).cloneNode(true));
        const still = one("img", screen);
        if (still) {
          const image = one("img", frame);
          for (const name of ["src", "width", "height"]) still.setAttribute(name, image.getAttribute(name));
          still.alt = frame.getAttribute("aria-label").replace(". Enlarge", "");
        }
        screen.dataset.frame = frame.dataset.frame;
      }
      const moving = one("video", screen);
      const away = Math.abs(seconds(frame.dataset.t) - t) > BOXES_HOLD_S;
      one(".overlay", screen).toggleAttribute("hidden", Boolean(moving) && away);
    }

    let at = 0;

    function show(t) {
      at = Math.min(Math.max(t, 0), duration);
      lanes.style.setProperty("--at", `${(100 * at) / duration}%`);
      now.textContent = clock(at);
      scrub.value = at;
      scrub.setAttribute("aria-valuetext", clock(at));
      spans.forEach((span) => {
        const inside = seconds(span.dataset.start) <= at && at <= seconds(span.dataset.end);
        if (inside) span.setAttribute("aria-current", "true");
        else span.removeAttribute("aria-current");
      });
      showFrame(nearest(at), at);
    }

    function seek(t) {
      if (player?.readyState > 0) player.currentTime = t;
      else player?.addEventListener("loadedmetadata", () => { player.currentTime = t; }, { once: true });
      show(t);
    }

    /** A browser that can't play the clip shows the sampled frames instead. */
    function dropPlayer() {
      if (!screen) return player.remove();
      const still = document.createElement("img");
      still.alt = "Sampled frame";
      player.replaceWith(still);
      delete screen.dataset.frame;
      show(at);
    }

    scrub.addEventListener("input", () => seek(seconds(scrub.value)));
    document.addEventListener("click", (event) => {
      const link = event.target.closest("[data-seek]");
      if (!link) return;
      event.preventDefault();
      seek(seconds(link.dataset.seek));
    });
    all(".track", lanes).forEach((track) => track.addEventListener("click", (event) => {
      if (event.target.closest("[data-seek], .scrub")) return;
      const box = track.getBoundingClientRect();
      seek((duration * (event.clientX - box.left)) / box.width);
    }));

    if (player) {
      const follow = () => {
        show(player.currentTime);
        if (!player.paused && !player.ended) requestAnimationFrame(follow);
      };
      player.addEventListener("play", follow);
      player.addEventListener("seeked", () => show(player.currentTime));
      player.addEventListener("pause", () => show(player.currentTime));
      player.addEventListener("error", dropPlayer);
    }

    const first = screen && frames.find((frame) => frame.dataset.frame === screen.dataset.frame);
    show(first ? seconds(first.dataset.t) : 0);
    if (player?.error) dropPlayer();
    return { seek, frames };
  }

  /** The dialog that shows one frame as large as the window. */
  function openableFrames(time, focusFrame) {
    const viewer = one("#viewer");
    const frames = time.frames;
    const place = one(".viewer-picture", viewer);
    let current = 0;

    function turnTo(index) {
      if (!frames[index]) return;
      current = index;
      const frame = frames[index];
      const image = one("img", frame);
      const picture = document.createElement("div");
      picture.style.setProperty("--ratio", image.getAttribute("width") / image.getAttribute("height"));
      const large = image.cloneNode();
      large.loading = "eager";
      large.alt = frame.getAttribute("aria-label").replace(". Enlarge", "");
      picture.append(large, one(".overlay", frame).cloneNode(true));
      place.replaceChildren(picture);
      one("#viewer-title", viewer).textContent = `${clock(seconds(frame.dataset.t))}, frame ${index + 1} of ${frames.length}`;
      one("#viewer-words", viewer).textContent = large.alt.replace(/^[^:]*:\d\d(\.\d)?: /, "");
      one("[data-do=previous]", viewer).disabled = index === 0;
      one("[data-do=next]", viewer).disabled = index === frames.length - 1;
      time.seek(seconds(frame.dataset.t));
    }

    const switches = all(".switches input");
    const actions = {
      close: () => viewer.close(),
      previous: () => turnTo(current - 1),
      next: () => turnTo(current + 1),
      boxes: (button) => {
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        switches.forEach((input) => { input.checked = shown; });
      },
    };

    viewer.addEventListener("click", (event) => {
      const button = event.target.closest("[data-do]");
      if (button) actions[button.dataset.do](button);
      else if (!event.target.closest(".viewer-picture > div")) viewer.close();
    });
    viewer.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: actions.previous, ArrowRight: actions.next, Home: () => turnTo(0), End: () => turnTo(frames.length - 1) }[event.key];
      if (!turn) return;
      event.preventDefault();
      turn();
    });
    viewer.addEventListener("close", () => focusFrame(frames[current]));

    const open = (index) => {
      one("[data-do=boxes]", viewer).setAttribute("aria-pressed", String(switches.some((input) => input.checked)));
      turnTo(index);
      viewer.showModal();
    };
    frames.forEach((frame, index) => frame.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      open(index);
    }));
    one("#screen").addEventListener("click", (event) => {
      if (event.target.matches("img")) open(frames.findIndex((frame) => frame.matches("[aria-current]")));
    });
  }

  function copyable() {
    const button = one("#copy");
    if (!button) return;
    button.addEventListener("click", async () => {
      const text = JSON.stringify(JSON.parse(one("#result").textContent), null, 2);
      const said = one("#copied");
      try {
        await navigator.clipboard.writeText(text);
        said.textContent = "Copied.";
      } catch {
        getSelection().selectAllChildren(one(".raw pre"));
        said.textContent = "Selected: press Ctrl+C or ⌘C.";
      }
    });
  }

  const focusers = new Map(all("[data-roving]").map((group) => [group, roam(group)]));
  const time = followTime();
  const strip = one(".frames");
  if (time && strip) {
    strip.addEventListener("roam", (event) => time.seek(seconds(event.detail.dataset.t)));
    openableFrames(time, focusers.get(strip));
  }
  copyable();
})();
