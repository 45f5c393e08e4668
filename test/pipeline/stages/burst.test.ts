/** Answers whose events arrive in one burst. */
import { expect, it } from 'vitest'
import { eventsOf } from '../../_setup.ts'
import { chunkOf, guarded, USAGE } from '../../guard/_setup.ts'
import { sse } from '../../upstream.ts'

/** The torture run sets more. */
const ANSWERS = Number(process.env.BURST_ANSWERS ?? 20)
const EVENTS = 1600

const POLICIES = [
  ['no policy', undefined],
  ['a policy that scans', { bannedPatterns: ['never said'] }],
  ['a policy that buffers', { bannedPatterns: ['never said'], guard: { stream: 'buffer' } }],
] as const

it.each(POLICIES)(
  `${ANSWERS} answers of ${EVENTS} events in one burst are complete: %s`,
  async (_name, policy) => {
    await using g = await guarded([])
    const words = Array.from({ length: EVENTS }, (_, i) => `word ${i} `)
    const payloads = [
      ...words.map((content) => chunkOf({ content })),
      chunkOf({}, 'stop'),
      { choices: [], usage: USAGE },
    ]
    const text = payloads.map((payload) => `data: ${JSON.stringify(payload)}\n\n`).join('')
    g.vendor.answer(sse(`${text}data: [DONE]\n\n`))
    let right = 0
    for (let i = 0; i < ANSWERS; i++) {
      const stream = i % 2 === 0
      const answer = await g.ask(policy as never, { stream })
      const said = stream
        ? eventsOf(answer.text)
            .map((event) => event.choices?.[0]?.delta?.content ?? '')
            .join('')
        : answer.json.choices[0].message.content
      if (answer.status === 200 && said === words.join('')) right++
    }
    expect(right).toBe(ANSWERS)
  },
)
