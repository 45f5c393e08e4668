/** Whatever is a provider: it passes the kit that plugin authors get, with the transcripts of its folder. */
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { readTranscripts, testProvider } from '../../src/testing.ts'

export interface Conforming {
  readonly name: string
  /** Its options, but for the address; by default a made-up key. */
  readonly options?: Readonly<Record<string, unknown>>
  /** Checks that have nothing to look at here. */
  readonly unchecked?: readonly string[]
  /** Checks, as `name, on`, that ask for what this vendor never says. */
  readonly exempt?: readonly string[]
}

/** Every operation of a correct provider comes to an end, however busy the machine is. */
const PATIENCE_MS = 60_000
const FOLDERS = new URL('../providers/transcripts/', import.meta.url)

/** Describes the kit's run for one built-in provider. */
export function conforms({ name, options, unchecked = [], exempt = [] }: Conforming): void {
  describe(name, () => {
    it('conforms', async () => {
      const transcripts = await readTranscripts(fileURLToPath(new URL(name, FOLDERS)))
      const { checks, seed } = await testProvider({
        provider: name,
        directory: import.meta.dirname,
        transcripts,
        timeoutMs: PATIENCE_MS,
        ...(options && { options }),
      })
      const failed = checks.filter(({ name, on, result }) => {
        return result === 'failed' && !exempt.includes(`${name}, ${on}`)
      })
      expect(failed, `seed ${seed}`).toEqual([])
      const skipped = checks.filter(({ result }) => result === 'skipped')
      expect([...new Set(skipped.map(({ name }) => name))].toSorted()).toEqual(unchecked.toSorted())
    })
  })
}
