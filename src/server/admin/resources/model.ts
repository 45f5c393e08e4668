/** Models, their deployments and their prices. */
import * as v from 'valibot'
import { flag, text, whole } from './settings.ts'

/** `POST /deployments/:id/cooldown`: for how many seconds a deployment is taken out. */
export const cooldown = v.strictObject({ seconds: whole(1, 86_400, ' of seconds') })

const ids = v.optional(v.array(v.string('a text'), 'a list of models'), [])
/** `POST /models/import`: which prices are taken over. */
export const modelImport = v.strictObject({
  from: text(1000),
  text: v.optional(v.string('the text of a price list')),
  only: ids,
  accept: ids,
  write: v.optional(flag, false),
})
