/** What the gateway of the browser tests has in it: accounts, keys with policies, calls that went well and badly. */
import type { TestGateway } from '../_setup.ts'
import type { Stage } from './_browser.ts'

const HARD_NAME = '<b>Ünïcødé</b> "quoted" \u202Eright to left'

/** Fills the gateway. @returns ids by the words that stand for them in addresses */
export async function furnish(stage: Stage): Promise<Readonly<Record<string, string>>> {
  const { gateway } = stage
  await gateway.newAccount('kiosk', '25')
  await stage.admin('POST', '/accounts', { name: HARD_NAME, id: 'hard' })
  const policy = {
    version: 1 as const,
    scope: 'Questions about our products',
    deny: ['code' as const],
    bannedPatterns: ['project heron'],
    maxOutputTokens: 400,
  }
  const desk = await gateway.newKey({
    account: 'kiosk',
    policy,
    logContent: true,
    spendCap: { usd: '5.00', scope: 'month' },
  })
  const slow = await gateway.newKey({ account: 'kiosk', rpm: 2 })
  const say = (key: string, content: string, more: object = {}) =>
    gateway.chat({ model: 'mock/echo', messages: [{ role: 'user', content }], ...more }, { key })
  for (let i = 0; i < 8; i++) await say(gateway.key.secret, `Hello ${i}`, { stream: i % 2 === 0 })
  for (let i = 0; i < 4; i++) await say(slow.secret, 'Hello')
  await say(desk.secret, 'Tell me about project heron')
  await say(desk.secret, 'What do you sell?', { user: 'u_1882' })
  await say(gateway.key.secret, 'Hello', { model: 'mock/none' })
  await work(gateway)
  const kept = await stage.admin('GET', `/requests?key=${desk.id}&guard=blocked`)
  const list = await stage.admin('GET', `/requests?key=${gateway.key.id}&status=200`)
  return {
    REQUEST: list.json.data[0].id,
    KEPT: kept.json.data[0].id,
    KEY: desk.id,
    ACCOUNT: 'kiosk',
  }
}

const DAY_MS = 86_400_000
const WORDS = 'ledger lock weir basin gate current level stream bank spring'.split(' ')

/** Some weeks of calls. The clock of this process, which is the gateway's, is moved back and forward again. */
async function work({ gateway, newKey, chat }: TestGateway): Promise<void> {
  const { now } = Date
  const { accounts } = gateway.runtime
  await accounts.createAccount({ id: 'weir', name: 'Weir & Sons' })
  await gateway.runtime.ledger.book({
    kind: 'top-up',
    account: 'weir',
    amount: 50_000_000_000_000n,
    reference: 'first',
  })
  const keys = await Promise.all(['acme', 'weir', 'weir'].map((account) => newKey({ account })))
  const models = ['mock/medium', 'mock/echo', 'mock/medium', 'mock/large']
  try {
    for (let day = 27; day >= 0; day--) {
      for (let i = 0; i < 2 + ((day * 7) % 5); i++) {
        const at = now() - day * DAY_MS - i * 3_600_000
        Date.now = () => at
        const content = Array.from({ length: 20 + ((day * i) % 40) }, (_, n) => WORDS[n % 10]).join(
          ' ',
        )
        const model = models[(day + i) % models.length]!
        const body = {
          model,
          messages: [{ role: 'user', content }],
          metadata: { tag: WORDS[i % 3] },
        }
        await chat(body, { key: keys[(day + i) % keys.length]!.secret })
      }
    }
  } finally {
    Date.now = now
  }
}
