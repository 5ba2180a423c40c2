export * from "../../workflow/define/compiled-browser.js";
