/** The changes of a policy, by the gateway's own order of policies, and saving it. */
import { useEffect, useState } from 'preact/hooks'
import { ApiError, call, toApiError } from '../api.ts'
import type { KeyRow, Policy } from '../answers.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Conflict, merged } from '../parts/conflict.ts'
import { changesBetween, Diff, type Change } from '../parts/diff.ts'
import { useSubmission } from '../parts/form.ts'
import { Dialog } from '../parts/sheet.ts'
import { Failure } from '../parts/states.ts'
import type { PolicyDifference as Differences } from '../../server/admin/resources/policy.ts'

const SILENCE_MS = 400

/** The answer of `POST /admin/policies/diff`; without its order where the gateway cannot tell. */
interface PolicyDifference {
  readonly changes: readonly Change[]
  readonly mayTighten: readonly string[]
  readonly error?: ApiError
}

/** The differences between two policies. @param from undefined compares nothing. @param to undefined if wrong */
export function useDifference(
  from: Policy | undefined,
  to: Policy | undefined,
): PolicyDifference | undefined {
  const [difference, setDifference] = useState<PolicyDifference>()
  const key = JSON.stringify([from, to])
  useEffect(() => {
    if (!from || !to) return undefined
    const controller = new AbortController()
    const timer = setTimeout(() => {
      const own = changesBetween(
        from as unknown as Record<string, unknown>,
        to as unknown as Record<string, unknown>,
      )
      call<{ data: Differences }>('POST', '/admin/policies/diff', {
        body: { from, to },
        signal: controller.signal,
      }).then(
        ({ data: { members, may_tighten: may } }) =>
          setDifference({ changes: members, mayTighten: textsIn(may) }),
        (thrown: unknown) => {
          if (!controller.signal.aborted)
            setDifference({ changes: own, mayTighten: [], error: toApiError(thrown) })
        },
      )
    }, SILENCE_MS)
    return () => {
      clearTimeout(timer)
      controller.abort()
    }
  }, [key])
  return difference
}

export function Difference({
  of,
  none = 'It is the saved one.',
  wrong = false,
}: {
  readonly of: PolicyDifference | undefined
  readonly none?: string
  readonly wrong?: boolean
}) {
  if (!of) {
    return html`<p class="muted">${wrong ? 'The policy cannot be compared while it is wrong.' : 'Comparing …'}</p>`
  }
  return html`<${Diff} changes=${of.changes} none=${none} />
    ${of.error && html`<p class="help">Tighter or looser is not known: ${of.error.message}</p>`}
    ${of.mayTighten.length > 0 && html`<p class="help">A request may still: ${of.mayTighten.join(', ')}.</p>`}`
}

/** Shows the difference once more, and saves. Another operator's change meanwhile is shown member by member. */
export function SavePolicy({
  row,
  policy,
  difference,
  onClose,
  onSaved,
  onRebase,
}: {
  readonly row: KeyRow
  readonly policy: Policy
  readonly difference: PolicyDifference | undefined
  readonly onClose: () => void
  readonly onSaved: (row: KeyRow) => void
  readonly onRebase: (row: KeyRow) => void
}) {
  const [theirs, setTheirs] = useState<KeyRow>()
  const looser = difference?.changes.filter(({ order }) => order === 'looser').length ?? 0
  const form = useSubmission(async () => {
    try {
      const { data } = await call<{ data: KeyRow }>('PATCH', `/admin/keys/${row.id}`, {
        body: {
          policy: theirs
            ? merged(membersOf(row.policy), membersOf(theirs.policy), membersOf(policy))
            : policy,
        },
        revision: (theirs ?? row).revision ?? null,
      })
      onSaved(data)
    } catch (thrown) {
      const error = toApiError(thrown)
      if (error.status !== 412) throw error
      setTheirs((error.body as { data: KeyRow }).data)
    }
  })
  const rebase = () => {
    if (theirs) onRebase(theirs)
    form.submit()
  }
  return html`<${Dialog} title=${`Save the policy of ${row.name}`} wide onClose=${onClose}>
    <${Difference} of=${difference} />
    ${theirs && html`<${Conflict} saved=${membersOf(row.policy)} theirs=${membersOf(theirs.policy)} mine=${membersOf(policy)} />`}
    ${form.error && html`<${Failure} error=${form.error} />`}
    <p class="help">It holds from the next call on. Calls that run keep the one they began with.</p>
    <div class="actions">
      <${Button} kind=${looser > 0 ? 'danger-filled' : 'primary'} role="admin" busy=${form.busy} onClick=${theirs ? rebase : form.submit}>
        ${theirs ? 'Apply mine on top' : looser > 0 ? `Save, loosens ${looser}` : 'Save policy'}
      <//>
      <${Button} onClick=${onClose}>Back<//>
    </div>
  <//>`
}

function membersOf(policy: Policy | null): Readonly<Record<string, unknown>> {
  return { ...policy }
}

function textsIn(may: Differences['may_tighten'] | undefined): readonly string[] {
  if (!may) return []
  const { scope, deny, banned_patterns: patterns, max_output_tokens: most, guard } = may
  return [
    ...(scope ? ['narrow the scope'] : []),
    ...(deny.length > 0 ? [`deny ${deny.join(', ')}`] : []),
    ...(patterns > 0 ? [`ban ${patterns} patterns`] : []),
    most === null ? 'limit the answer' : `limit the answer below ${most} tokens`,
    ...guard.map((member) => `tighten ${member}`),
  ]
}
