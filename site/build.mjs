import { writeFilePages } from "./pages.mjs";
writeFilePages();
