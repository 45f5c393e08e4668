/** Answers of the API as the page has them. */
import type { AccountAnswer } from '../server/admin/resources/account.ts'
import type { KeyAnswer } from '../server/admin/resources/key.ts'
import type { ModelAnswer } from '../server/admin/resources/model.ts'
import type { Overview as SentOverview } from '../server/admin/resources/overview.ts'
import type { TeamAnswer } from '../server/admin/resources/team.ts'
import type { RequestDetails, RequestView } from '../server/admin/resources/request.ts'
import type * as usage from '../server/admin/resources/usage.ts'
import type { Read, Usd } from './amounts.ts'

export type { AlertAnswer as Alert, Looked } from '../server/admin/resources/alert.ts'
export type { HealthState, PriceSource, Pricing } from '../server/admin/resources/model.ts'
export type { Policy } from '../server/admin/resources/policy.ts'
export type { RequestContent } from '../server/admin/resources/request.ts'
export type { Rollup } from '../server/admin/resources/usage.ts'
export type { Usd } from './amounts.ts'

export type ShownCall = Read<RequestView>
export type ShownDetails = Read<RequestDetails>
export type KeyRow = Read<KeyAnswer>
export type TeamRow = Read<TeamAnswer>
export type AccountRow = Read<AccountAnswer>
export type ModelRow = Read<ModelAnswer>
export type Overview = Read<SentOverview>
export type UsageAnswer = Read<usage.UsageAnswer>
export type UsageCell = Read<usage.UsageCell>
export type UsageTotals = Read<usage.UsageTotals>
export type Agreement = Read<usage.Agreement> & { readonly cost_usd?: Usd | null }
