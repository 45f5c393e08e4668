/** Judges decisions of guards by the contents of their calls. The judgements stay in the page until they are exported. */
import { useState } from 'preact/hooks'
import { useAnswer } from '../api.ts'
import type { RequestContent, ShownCall } from '../answers.ts'
import { count } from '../format.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { Sheet } from '../parts/sheet.ts'
import { Answered } from '../parts/states.ts'
import { ContentOf, contentPath } from './content.ts'

/** A text, and the verdict expected of a policy: a line of the file that `policy test --cases` reads. */
interface Case {
  readonly side: string
  readonly text: string
  readonly rule: string
  readonly expected: 'block' | 'pass'
}

export function Review({
  rows,
  onClose,
}: {
  readonly rows: readonly ShownCall[]
  readonly onClose: () => void
}) {
  const [at, setAt] = useState(0)
  const [cases, setCases] = useState<ReadonlyMap<string, Case>>(new Map())
  const row = rows[at]!
  const answer = useAnswer<{ data: RequestContent }>(contentPath(row.id))
  const isMissing = answer.error?.status === 404
  return html`<${Sheet}
    title=${`Review, ${count(at + 1)} of ${count(rows.length)}`}
    onClose=${onClose}
    actions=${html`<div class="actions">
      <${Button} onClick=${() => setAt(Math.max(0, at - 1))}>Previous<//>
      <${Button} onClick=${() => setAt(Math.min(rows.length - 1, at + 1))}>Next<//>
      <${Button} kind="primary" title="Lines of JSON for policy test --cases" onClick=${() => save(cases)}
        >Export ${count(cases.size)}<//
      >
    </div>`}
  >
    <p class="mono">${row.id}</p>
    ${
      isMissing
        ? html`<p class="muted">The content of this call is not kept.</p>`
        : html`<${Answered} of=${answer}>
            ${({ data }: { data: RequestContent }) =>
              html`<div class="stack">
                ${data.decided.map((one) => {
                  const id = [data.id, one.side, one.rule].join()
                  const judge = (expected: Case['expected']) =>
                    setCases(new Map([...cases, [id, { ...textOf(data, one), expected }]]))
                  return html`<fieldset key=${id} class="actions">
                    <legend>${one.side}: ${one.rule}, ${one.outcome}</legend>
                    ${(['block', 'pass'] as const).map(
                      (expected) =>
                        html`<label class="check"
                          ><input
                            type="radio"
                            name=${id}
                            checked=${cases.get(id)?.expected === expected}
                            onChange=${() => judge(expected)}
                          />${expected === 'block' ? 'right' : 'wrong'}</label
                        >`,
                    )}
                  </fieldset>`
                })}
                <${ContentOf} content=${data} />
              </div>`}
          <//>`
    }
  <//>`
}

/** The judged text: the last message, or the answer. Of a refused answer only the part before the refusal is known. */
function textOf(
  { input, output }: RequestContent,
  { side, rule }: RequestContent['decided'][number],
): Pick<Case, 'side' | 'text' | 'rule'> {
  const last = input.messages?.at(-1)?.content ?? input
  const question = Array.isArray(last)
    ? last.map((part: { readonly text?: string }) => part.text ?? '').join('')
    : typeof last === 'string'
      ? last
      : JSON.stringify(last)
  const text = side === 'input' ? question : output.map((one) => one.text).join('\n')
  return { side, text, rule }
}

function save(cases: ReadonlyMap<string, Case>): void {
  const lines = [...cases.values()].map((one) => `${JSON.stringify(one)}\n`)
  const link = document.createElement('a')
  link.href = URL.createObjectURL(new Blob(lines, { type: 'application/jsonl' }))
  link.download = 'cases.jsonl'
  link.click()
  URL.revokeObjectURL(link.href)
}
