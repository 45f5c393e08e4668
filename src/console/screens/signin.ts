/** Signing in as an operator. Over a screen whose session has ended, it keeps what was typed there. */
import { useState } from 'preact/hooks'
import { call, type ApiError } from '../api.ts'
import { Mark } from '../frame.ts'
import { html } from '../html.ts'
import { Button } from '../parts/button.ts'
import { TextField, useSubmission } from '../parts/form.ts'
import { Dialog } from '../parts/sheet.ts'
import { Failure } from '../parts/states.ts'
import { session } from '../state.ts'
import type { Session } from '../../server/admin/resources/session.ts'

/** @param failure the error of a sign-in link that did not work */
export function SignIn({
  over = false,
  failure,
}: {
  readonly over?: boolean
  readonly failure?: ApiError
}) {
  if (over) {
    return html`<${Dialog} title="Your session has ended" onClose=${() => {}}><${TokenForm} /><//>`
  }
  return html`<main class="lone">
    <h1 class="brand"><${Mark} />Sluicegate</h1>
    ${failure && html`<${Failure} error=${failure} />`}
    <${TokenForm} />
    <p class="help">
      On the gateway's machine, <code>sluicegate console</code> prints a link that signs you in. The
      holder of an API key goes to <a href="/me">their own page</a>.
    </p>
  </main>`
}

function TokenForm() {
  const [token, setToken] = useState('')
  const [missing, setMissing] = useState(false)
  const form = useSubmission(async () => {
    if (token.trim() === '') return setMissing(true)
    const { data } = await call<{ data: Session }>('POST', '/admin/session', {
      body: { token: token.trim() },
    })
    setToken('')
    session.value = data
  })
  return html`<form class="form" onSubmit=${form.submit}>
    <${TextField}
      label="Admin token"
      type="password"
      value=${token}
      onInput=${setToken}
      autofocus
      autocomplete="current-password"
      error=${form.error?.message ?? (missing && token === '' ? 'Enter a token of the configuration.' : undefined)}
      help="One of admin.token and admin.tokens of the configuration."
    />
    <div class="actions"><${Button} kind="primary" type="submit" busy=${form.busy}>Sign in<//></div>
  </form>`
}
