/** The key of a vendor: a new one, or where the present one stands; and changes of what is set up at run time. */
import { useState } from 'preact/hooks'
import { acted, call, useAnswer } from '../api.ts'
import { perform, type Act } from '../acts.ts'
import { html } from '../html.ts'
import { FormEnd, TextField, useSubmission } from '../parts/form.ts'
import { Dialog } from '../parts/sheet.ts'
import { Answered } from '../parts/states.ts'
import { toast } from '../parts/toast.ts'
import { optionsOf } from './plugin-fields.ts'
import type { SettingAnswer } from '../../server/admin/resources/gateway.ts'
import type { ManagedAnswer, PluginAnswer } from '../../server/admin/resources/managed.ts'

/** A change of an entry that is set up at run time; null removes it. */
export interface EntryChange {
  readonly section: string
  readonly name: string
  readonly value: object | null
  readonly revision?: number | undefined
}

/** What came of a change, or would. */
export interface Applied {
  readonly revision: number
  readonly models: Readonly<Record<'added' | 'removed' | 'changed', readonly string[]>>
  readonly warnings: readonly { readonly message: string }[]
}

export const entriesRequest = (changes: readonly EntryChange[]) => ({
  method: 'POST',
  path: '/admin/managed',
  body: { changes },
})

/** Takes back one change of what is set up at run time. */
export const undoRevision = (revision: number) =>
  call('POST', '/admin/managed/undo', { body: { revision } })

/** Changes what is set up at run time, all or nothing, and offers to take that back. */
export async function changeEntries(
  changes: readonly EntryChange[],
  message: string,
): Promise<void> {
  const { method, path, body } = entriesRequest(changes)
  const { data } = await call<{ data: Applied }>(method, path, { body })
  toast(message, () => undoRevision(data.revision))
  acted.value++
}

/** Changes the secret of a vendor that was set up here. @param test what shows whether it works */
export function GiveKey({
  provider,
  test,
  onClose,
  onDone,
}: {
  readonly provider: string
  readonly test: Act
  readonly onClose: () => void
  readonly onDone: () => void
}) {
  const managed = useAnswer<{ data: ManagedAnswer }>('/admin/managed').data?.data
  const plugins = useAnswer<{ data: readonly PluginAnswer[] }>('/admin/plugins').data?.data
  const entry = managed?.entries.find(
    ({ section, name }) => section === 'providers' && name === provider,
  )
  const { use, options } = (entry?.value ?? {}) as { use?: string; options?: object }
  const plugin = plugins?.find(({ kind, name }) => kind === 'provider' && name === use)
  const secrets = plugin?.fields.filter(({ kind }) => kind === 'secret') ?? []
  const [given, setGiven] = useState<Readonly<Record<string, string>>>({})
  const form = useSubmission(async () => {
    const next = { ...options, ...optionsOf({ fields: secrets }, given) }
    const value = { ...entry!.value, options: next }
    await changeEntries(
      [{ section: 'providers', name: provider, value, revision: entry!.revision }],
      `${provider} has another key`,
    )
    setGiven({})
    await perform(test)
    onDone()
    onClose()
  })
  return html`<${Dialog} title=${`A new key of ${provider}`} onClose=${onClose}>
    <form class="form" onSubmit=${form.submit}>
      ${secrets.map(({ name, label }, place) => html`<${TextField} key=${name} label=${label} type="password" autocomplete="new-password" mono autofocus=${place === 0} value=${given[name] ?? ''} onInput=${(text: string) => setGiven({ ...given, [name]: text.trim() })} />`)}
      <${FormEnd} form=${form} verb="Save and test" right="config" onClose=${onClose} />
    </form>
  <//>`
}

/** Where settings of the file stand. @param path the beginning of theirs */
export function Where({
  name,
  path,
  onClose,
}: {
  readonly name: string
  readonly path: string
  readonly onClose: () => void
}) {
  const answer = useAnswer<{ data: readonly SettingAnswer[] }>('/admin/config')
  return html`<${Dialog} title=${`Where ${name} is set`} onClose=${onClose}>
    <${Answered} of=${answer} lines=${3}>
      ${({ data }: { data: readonly SettingAnswer[] }) => html`<ul class="lines">
        ${data
          .filter((one) => one.path.startsWith(path))
          .map(
            (one) =>
              html`<li key=${one.path}><code>${one.path}</code> <span>${originOf(one.origin)}</span></li>`,
          )}
      </ul>`}
    <//>
    <p class="help">Change it there, and the gateway reads it at once; a variable of the environment needs a new start.</p>
  <//>`
}

function originOf({ from, file, name }: SettingAnswer['origin']): string {
  const variable = name === undefined ? '' : `variable ${name}`
  return [file ?? from, variable].filter(Boolean).join(', ')
}
