import { describe, expect, it } from 'vitest'
import { AbortScope, abortScopeOf, offAbort, onAbort } from '../../src/lifetime/abort-scope.ts'

describe('a branch', () => {
  it('tells its own listeners and those of its signal, once, when the signal is aborted', () => {
    const branch = new AbortScope()
    const heard: string[] = []
    onAbort(branch.signal, () => heard.push(`own, ${branch.signal.aborted}`))
    branch.signal.addEventListener('abort', () => heard.push('signal'))
    const reason = new Error('enough')
    branch.abort(reason)
    branch.abort(new Error('again'))
    expect(heard).toEqual(['signal', 'own, true'])
    expect(branch.signal.reason).toBe(reason)
  })

  it('forgets who no longer listens', () => {
    const branch = new AbortScope()
    const heard: string[] = []
    const listen = (name: string) => {
      const listener = () => void heard.push(name)
      onAbort(branch.signal, listener)
      return listener
    }
    const [first] = [listen('first'), listen('last')]
    offAbort(branch.signal, first)
    offAbort(branch.signal, first)
    branch.abort()
    expect(heard).toEqual(['last'])
  })

  it('is found by its signal, and nothing is by another one', () => {
    const branch = new AbortScope()
    expect(abortScopeOf(branch.signal)).toBe(branch)
    expect(abortScopeOf(new AbortController().signal)).toBeUndefined()
    expect(abortScopeOf(AbortSignal.any([branch.signal]))).toBeUndefined()
  })
})

describe('a signal of somebody else', () => {
  it('tells listeners, and forgets them', () => {
    const controller = new AbortController()
    let [told, untold] = [0, 0]
    const gone = () => void untold++
    onAbort(controller.signal, () => void told++)
    onAbort(controller.signal, gone)
    offAbort(controller.signal, gone)
    controller.abort()
    expect([told, untold]).toEqual([1, 0])
  })
})
