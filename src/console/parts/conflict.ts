/** Two operators changed one object: three versions of each member, and what both of them wanted. */
import { useState } from 'preact/hooks'
import { call, toApiError } from '../api.ts'
import { html } from '../html.ts'
import { changesBetween, shortJson, type Change } from './diff.ts'
import { useSubmission, type Submission } from './form.ts'
import { Heads } from './heads.ts'
import { Notice } from './states.ts'

type Members = Readonly<Record<string, unknown>>

/** The present object with the members that were changed here on top. A member that was removed here is removed. */
export function merged(saved: Members, theirs: Members, mine: Members): Members {
  const names = new Set([...Object.keys(saved), ...Object.keys(theirs), ...Object.keys(mine)])
  const entries = [...names].map((name) => {
    const isMine = JSON.stringify(saved[name]) !== JSON.stringify(mine[name])
    return [name, isMine ? mine[name] : theirs[name]] as const
  })
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

interface Changing {
  readonly form: Submission
  readonly changes: readonly Change[]
  /** Set once another operator's change came first. */
  readonly versions: Versions | undefined
}

/** The members of an object when a change was begun, now, and as they are wanted. */
interface Versions {
  readonly saved: Members
  readonly theirs: Members
  readonly mine: Members
}

/**
 * Changes members of an object. A change that another operator made meanwhile is shown first; the next submission is
 * based on it.
 * @param wanted every member that can be changed.
 * @param onDone called when it is saved, or nothing differs
 */
export function useChange(
  path: string,
  row: object,
  wanted: Members,
  onDone: () => void,
): Changing {
  const [theirs, setTheirs] = useState<object>()
  const settingsOf = (of: object): Members =>
    Object.fromEntries(
      Object.entries(wanted).map(([member, value]) => [
        member,
        (of as Members)[member] ?? (typeof value === 'boolean' ? false : null),
      ]),
    )
  const saved = settingsOf(row)
  const changes = changesBetween(saved, wanted)
  const form = useSubmission(async () => {
    if (changes.length === 0) return onDone()
    const body = Object.fromEntries(changes.map(({ member, to }) => [member, to]))
    const { revision = null } = (theirs ?? row) as { readonly revision?: number | string }
    try {
      await call('PATCH', path, { body, revision })
    } catch (thrown) {
      const error = toApiError(thrown)
      if (error.status !== 412) throw error
      return setTheirs((error.body as { data: object }).data)
    }
    onDone()
  })
  const versions = theirs && { saved, theirs: settingsOf(theirs), mine: wanted }
  return { form, changes, versions }
}

export function Conflict({ saved, theirs, mine }: Versions) {
  const versions = [saved, theirs, mine, merged(saved, theirs, mine)]
  const names = [...new Set(versions.flatMap((one) => Object.keys(one)))].filter(
    (name) => new Set(versions.map((one) => JSON.stringify(one[name]))).size > 1,
  )
  return html`<${Notice} tone="warn">
      <strong>Another operator changed this meanwhile.</strong> Nothing was saved.
    <//>
    <table class="diff">
      <${Heads} names=${['Member', 'When you began', 'Now', 'Yours', 'Both']} />
      <tbody>
        ${names.map(
          (name) =>
            html`<tr key=${name}>
              <th scope="row" class="mono">${name}</th>
              ${versions.map((one) => html`<td class="mono">${shortJson(one[name])}</td>`)}
            </tr>`,
        )}
      </tbody>
    </table>`
}
