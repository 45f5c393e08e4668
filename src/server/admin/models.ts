/** Models in the admin API. */
import type { Answer, Asked } from './route.ts'
import { modelView } from './views.ts'

export function listModels({ runtime: { catalog, routing } }: Asked): Answer {
  return {
    body: {
      data: catalog
        .at()
        .all()
        .map((model) => modelView(model, routing)),
      next: null,
    },
  }
}
