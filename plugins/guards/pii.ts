/**
 * Detects personal data by its form: email addresses, numbers of telephones, cards, accounts and identities with their
 * check digits, network addresses, zones of travel documents. Names, births, addresses and license plates are weak
 * shapes: two of them block, or one with the option `weak`. The check is local, and its result does not depend on how
 * an answer is split.
 *
 * It does not see names in running text, requests to find a person, or information about a person's health or family.
 * These need a judge.
 */
import * as v from 'valibot'
import { defineGuard, type Guard } from '../../src/plugin.ts'
import { CLASSES } from './pii/classes.ts'

const options = v.strictObject({
  /** Kinds of data to look for. The default is all. */
  entities: v.optional(v.pipe(v.array(v.picklist(CLASSES)), v.minLength(1))),
  /**
   * Data that is not secret: an address or number in any spelling, or the end of addresses, such as
   * `@ourcompany.example`.
   */
  ignore: v.optional(v.array(v.pipe(v.string(), v.minLength(3))), []),
  /**
   * Whether a single weak shape blocks: a name after "my name is", a date of birth, an address, a license plate,
   * coordinates.
   */
  weak: v.optional(v.boolean(), false),
})

const outline = (): Pick<Guard, 'enforces' | 'execution' | 'locate'> => ({
  enforces: ['deny:personal-data'],
  execution: 'local',
  locate: notLoaded,
})

/** Says that the guard can mask; it is loaded before it is asked. */
function notLoaded(): never {
  throw new Error('the guard is asked before it is loaded')
}

const pii = defineGuard({
  name: 'pii',
  options,
  async setup({ entities = CLASSES, ignore, weak }, host) {
    const { createGuard } = await import('./pii/guard.ts')
    return { ...outline(), ...(await createGuard({ entities, ignore, weak }, host)) }
  },
})

export default { ...pii, outline }
