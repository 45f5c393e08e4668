/** Keeps ticket numbers in: a prefix, a hyphen, and six digits. */
import * as v from 'valibot'
import { defineGuard } from 'sluicegate'

export default defineGuard({
  name: 'my-guard',
  options: v.strictObject({ prefix: v.optional(v.pipe(v.string(), v.regex(/^\w+$/)), 'TICKET') }),
  setup({ prefix }) {
    const number = new RegExp(`${prefix}-\\d{6}(?!\\d)`)
    const check = (text: string) => {
      const start = text.search(number)
      return start < 0 ? undefined : { start, end: start + prefix.length + 7 }
    }
    return { enforces: ['x:my-guard/ticket'], execution: 'local', reach: prefix.length + 8, check }
  },
})
