import { Converter, ReflectionKind } from "typedoc";

/** Names each module as it is imported: the file `index` is "onceflow", the file `workflow/api` is "onceflow/workflow/api". */
export function load(app) {
  app.converter.on(Converter.EVENT_RESOLVE_BEGIN, (context) => {
    for (const module of context.project.getReflectionsByKind(ReflectionKind.Module)) {
      module.name = module.name === "index" ? "onceflow" : `onceflow/${module.name}`;
    }
  });
}
