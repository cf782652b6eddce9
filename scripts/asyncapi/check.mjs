// Validates an AsyncAPI document, and the JSON Schemas it refers to, with the specification's own parser.
// Use: node check.mjs DOCUMENT
import { Parser, fromFile } from "@asyncapi/parser";

const { document, diagnostics } = await fromFile(new Parser(), process.argv[2]).parse();
for (const { severity, code, path, message } of diagnostics) {
  console.log(`${["error", "warning", "info", "hint"][severity]} ${code} at ${path.join(".") || "/"}: ${message}`);
}
console.log(document ? `${process.argv[2]} is valid AsyncAPI ${document.version()}` : `${process.argv[2]} is NOT valid`);
process.exitCode = document ? 0 : 1;
