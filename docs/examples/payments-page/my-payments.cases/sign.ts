import { createHmac } from 'node:crypto'

/** Signs a webhook as the provider does. */
export default function sign(body: string, { webhookSecret }: any, at: number) {
  const hmac = createHmac('sha256', webhookSecret).update(`${at} ${body}`)
  return { 'x-signature': `${at} ${hmac.digest('hex')}` }
}
