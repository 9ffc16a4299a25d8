// What makes a page live beyond htmx: when it reads itself again, the word beside the menu, ages, and copy buttons.
"use strict"; (() => {
    const page = document.documentElement;
    const isOf = (event, id) => event.detail.ctx?.sourceElement?.id === id;
    const readAgain = () => document.getElementById("live") && htmx.trigger("#live", "changed");
    let wasLost = false, sentAt = 0;

    function connection(word) {
        const shown = document.getElementById("live");
        if (!shown) return;
        shown.hidden = false;
        shown.classList.toggle("lost", word !== "live");
        if (shown.textContent !== word) shown.textContent = word;
    }
    const lost = () => connection("reconnecting", wasLost = true);
    for (const name of ["before:connection", "error"]) document.addEventListener(`htmx:sse:${name}`, lost);
    document.addEventListener("htmx:sse:after:connection", () => {
        connection("live");
        if (wasLost) readAgain();
        wasLost = false;
    });

    // Once a form is sent, the page stays as it is until the next one comes: a second click must not meet another button.
    document.addEventListener("submit", () => sentAt = Date.now());
    document.addEventListener("htmx:before:swap", event => Date.now() - sentAt < 3000 && event.preventDefault());
    document.addEventListener("htmx:config:request", event => {
        if (!isOf(event, "main")) return;
        if (document.hidden) event.preventDefault(); // the stream is closed, too, and its return reads the page again
        else event.detail.ctx.request.headers["If-None-Match"] = page.dataset.etag;
    });
    document.addEventListener("htmx:after:request", event => {
        const answer = event.detail.ctx.response;
        if (answer.status >= 500) {
            lost();
            if (isOf(event, "main")) setTimeout(readAgain, 2000);
        } else if (isOf(event, "main")) {
            page.dataset.etag = answer.headers.get("ETag") ?? "";
            document.querySelector("footer time")?.setAttribute("datetime", new Date().toISOString());
        }
    });

    function ago(seconds) {
        for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60], ["s", 1]]) {
            const count = `${Math.floor(Math.abs(seconds) / size)}${unit}`;
            if (Math.abs(seconds) >= size) return seconds < 0 ? `in ${count}` : `${count} ago`;
        }
        return "now";
    }
    setInterval(() => {
        for (const each of document.hidden ? [] : document.querySelectorAll("time.age")) {
            const text = ago((Date.now() - Date.parse(each.dateTime)) / 1000);
            if (each.textContent !== text) each.textContent = text;
        }
    }, 1000);

    document.addEventListener("click", event => {
        const copied = event.target.closest(".copyable button")?.parentElement.querySelector("pre, code");
        if (copied) navigator.clipboard?.writeText(copied.textContent).then(() => event.target.textContent = "Copied");
    });
})();
