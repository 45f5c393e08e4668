/** Rows of a new-api database. */
import { writeFileSync } from 'node:fs'

const user = { id: 7, username: 'ada', quota: 1_250_000 }
const token = {
  id: 1,
  user_id: 7,
  key: '0123456789abcdef',
  status: 1,
  name: 'laptop',
  expired_time: -1,
  remain_quota: 500_000,
  unlimited_quota: 0,
  model_limits_enabled: 1,
  model_limits: 'swift-latest,mock/echo',
}
writeFileSync('users.json', JSON.stringify([user]))
writeFileSync('tokens.json', JSON.stringify([token]))
