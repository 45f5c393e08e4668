/**
 * A gateway in a process of its own, so that what it takes of memory can be seen. Started with a configuration as JSON; tells
 * its address and a key, and then its memory whenever it is asked.
 */
import { createTestGateway } from '../../_setup.ts'

const t = await createTestGateway(JSON.parse(process.argv[2]!))
process.send!({ baseURL: t.baseURL, key: t.key.secret })
process.on('message', () => {
  process.send!({ rss: process.memoryUsage.rss(), most: process.resourceUsage().maxRSS * 1024 })
})
process.on('disconnect', () => process.exit())
