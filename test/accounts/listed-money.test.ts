import { createConsola } from 'consola'
import { expect, it, onTestFinished } from 'vitest'
import { Accounts } from '../../src/accounts/accounts.ts'
import { Directory } from '../../src/accounts/directory.ts'
import { ListedMoney } from '../../src/accounts/listed-money.ts'
import { closeState, openState } from '../../src/gateway/open-state.ts'
import { loaded, MOCK_CONFIG } from '../_setup.ts'

it('refuses lists once the gateway ends, instead of an answer without the rest', async () => {
  const config = loaded(MOCK_CONFIG)
  const state = await openState(config, createConsola({ level: 0 }))
  onTestFinished(() => closeState(state))
  const { ledger, records } = state
  const accounts = new Accounts({ ...state, defaults: () => config.config.defaults })
  await accounts.createAccount({ id: 'acme', name: 'Acme' })
  await accounts.createKey('acme', { name: 'One' })
  const directory = new Directory(records)
  const all = await directory.view()
  const options = { isShared: true, isFollowed: () => true, now: () => Date.now() }
  const money = new ListedMoney({ ledger, directory, ...options })
  await money.close()
  const unavailable = { status: 503, code: 'service_unavailable' }
  await expect(money.totals([...all.accounts.values()])).rejects.toMatchObject(unavailable)
  await expect(money.spends([...all.keys.values()])).rejects.toMatchObject(unavailable)
  const ended = new Directory(records)
  await ended.close()
  await expect(ended.view()).rejects.toMatchObject(unavailable)
})
