import { chatFormat } from '../../format.ts'
import { readChatRequest } from './read.ts'
import { writeChat, writeChatError } from './write.ts'

/** OpenAI's Chat Completions API. Its requests and chunks are the normal form of chat. */
export const chatCompletions = chatFormat({
  name: 'chat',
  path: '/v1/chat/completions',
  read: (body) => ({ input: readChatRequest(body.value) }),
  write: writeChat,
  writeError: writeChatError,
})
