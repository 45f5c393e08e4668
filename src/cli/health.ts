/** `health`: asks a running gateway whether it is ready. It loads nothing else, because supervisors run it often. */
import http from 'node:http'
import { CommandError, type Arguments } from './command.ts'

const PORT = 8787
const TIMEOUT_SECONDS = 5

/** Prints one line. @throws CommandError if the gateway is not ready or does not answer */
export async function health({ text, on }: Arguments): Promise<void> {
  const { SLUICEGATE_URL, SLUICEGATE__SERVER__PORT: port = PORT } = process.env
  const named = text.url ?? (SLUICEGATE_URL || undefined)
  const base = named ?? `http://127.0.0.1:${port}`
  const seconds = Number(text.timeout ?? TIMEOUT_SECONDS)
  const address = `${base.replace(/\/+$/, '')}/${on.has('live') ? 'livez' : 'readyz'}`
  if (!/^https?:\/\//.test(address) || !URL.canParse(address)) {
    throw new CommandError(
      `--url takes an address that begins with http:// or https://, not "${base}".`,
      2,
    )
  }
  const { status, body } = await ask(address, seconds * 1000).catch((error: CommandError) => {
    if (named !== undefined) throw error
    // A port with TLS does not answer plain HTTP, and no configuration is read here.
    if (REFUSED_PLAIN.test(error.message)) {
      return ask(address.replace('http:', 'https:'), seconds * 1000)
    }
    throw new CommandError(`${error.message}; --url names another address`)
  })
  const line = `${address} ${status} ${body}`
  if (status !== 200) throw new CommandError(line)
  process.stdout.write(`${line}\n`)
}

const REFUSED_PLAIN = / (?:ECONNRESET|EPROTO|HPE_\w+)$/
const LOOPBACK = /^https:\/\/(?:localhost|127\.[\d.]+|\[::1\])[:/]/

async function ask(address: string, timeoutMs: number): Promise<{ status: number; body: string }> {
  const { get } = address.startsWith('https:') ? await import('node:https') : http
  // The certificate of the port is not for the name of this machine.
  const rejectUnauthorized = !LOOPBACK.test(address)
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => reject(new CommandError(`${address} ${reason}`))
    const request = get(
      address,
      { agent: false, rejectUnauthorized },
      (response: http.IncomingMessage) => {
        let body = ''
        response.setEncoding('utf8')
        response.on('data', (text: string) => (body = (body + text).slice(0, 500)))
        response.on('end', () => resolve({ status: response.statusCode ?? 0, body }))
        response.on('error', (error) => fail(error.message))
      },
    )
    request.on('error', (error: NodeJS.ErrnoException) =>
      fail(`cannot be reached: ${error.code ?? error.message}`),
    )
    const late = setTimeout(() => {
      fail(`has not answered within ${timeoutMs / 1000} seconds`)
      request.destroy()
    }, timeoutMs)
    request.on('close', () => clearTimeout(late))
  })
}
