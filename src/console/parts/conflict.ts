/** Two operators changed one object: three versions of each member, and what both of them wanted. */
import { html } from '../html.ts'
import { shortJson } from './diff.ts'
import { Heads } from './heads.ts'
import { Notice } from './states.ts'

type Members = Readonly<Record<string, unknown>>

/** Their object with the members that were changed here on top. A member that was removed here is removed. */
export function merged(saved: Members, theirs: Members, mine: Members): Members {
  const names = new Set([...Object.keys(saved), ...Object.keys(theirs), ...Object.keys(mine)])
  const entries = [...names].map((name) => {
    const isMine = JSON.stringify(saved[name]) !== JSON.stringify(mine[name])
    return [name, isMine ? mine[name] : theirs[name]] as const
  })
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined))
}

/** What differs: when the change was begun, now, and here. */
export function Conflict({
  saved,
  theirs,
  mine,
}: {
  readonly saved: Members
  readonly theirs: Members
  readonly mine: Members
}) {
  const versions = [saved, theirs, mine, merged(saved, theirs, mine)]
  const names = [...new Set(versions.flatMap((one) => Object.keys(one)))].filter(
    (name) => new Set(versions.map((one) => JSON.stringify(one[name]))).size > 1,
  )
  return html`<${Notice} tone="warn">
      <strong>This key was changed meanwhile.</strong> Nothing was saved.
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
