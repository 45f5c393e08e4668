import type { Lexicon } from '../cues.ts'

export const pt: Lexicon = {
  language: 'pt',
  asks: `
    como posso, como faço, como, você pode, pode, poderia, me ajude, ajude-me, por favor, preciso,
    quero, gostaria, me dê, mostre, explique, devo, deveria, posso, tenho que`,
  against: `
    quem inventou, quem escreveu, quem foi, história d*, museu, horário*, filme, romance,
    etimologia`,
  operators: `vezes, mais, menos, dividido por, multiplicado por`,
  code: {
    asks: `
      escreva, escreve, crie, criar, faça, corrija, corrige, depure, programe, otimize, traduza,
      converta, implemente, gere, refatore, explique, adicione`,
    topics: `
      javascript, typescript, sql, html, css, regex, json, api, docker*, git, algoritmo*,
      código-fonte, código fonte, laço, loop, consulta sql, expressão regular, fórmula do excel,
      script, banco de dados, compilador, página web, testes unitários`,
    loose: `
      função, programa, python, java, código, classe, variável, consulta, macro, lista, erro,
      fórmula, arquivo, site`,
    strong: `
      escreva uma função, escreva um programa, escreva um script, crie um script, este código,
      esse código, meu código, em python, em javascript, em java, consulta sql, código em,
      fórmula do excel, expressão regular`,
    against: `código postal, código de vestimenta, código penal, código civil, cobra`,
  },
  math: {
    asks: `
      calcule*, calcula, resolva*, resolve, prove, demonstre, simplifique, derive, integre,
      quanto é, quantos, qual é, qual a, encontre, fatore`,
    topics: `
      equação, equações, derivada*, integral, raiz quadrada, fração, frações, triângulo*, círculo*,
      retângulo*, perímetro, área d*, raio, diâmetro, probabilidade, matriz, polinômio*,
      porcentagem, lição de matemática, problema de matemática, matemática, média de, mediana,
      volume d*, teorema, hipotenusa`,
    loose: `ângulo, lado, média, números`,
    strong: `
      resolva a equação, resolva esta equação, raiz quadrada de, a derivada de, área de um,
      área do triângulo, equação do segundo grau, teorema de pitágoras, quanto é o`,
    against: `matemático, habitantes, jogadores`,
  },
  roleplay: {
    asks: `
      finja, finge, imagine que você, você é, seja, aja, aja como, fale como, responda como,
      interprete, brinque`,
    topics: `
      pirata*, cavaleiro*, vampiro*, mago*, bruxa*, dragão, dragões, princesa*, robô, detetive,
      elfo*, namorada, namorado, fantasma*, alienígena*, rei, rainha, mordomo, demônio*,
      feiticeiro*`,
    loose: `personagem, avó, amigo`,
    strong: `
      finja que, finja ser, faz de conta que, jogo de rpg, vamos fazer um rpg,
      interpretação de papéis, imagine que você é, agora você é, a partir de agora você é,
      seja minha namorada, seja meu namorado, fique no personagem`,
    against: `ator, atriz, revisor, tradutor, professor, jogo de tabuleiro`,
  },
  medical: {
    asks: `
      posso, devo, o que tomar, o que devo, o que faço, o que posso, quanto, estou com, tenho,
      sinto, meu filho está, meu filho tem, minha filha está, minha filha tem, meu bebê está,
      é perigoso, tratar, curar, tomar, qual a dose, qual remédio`,
    leads: `meu, minha, para, contra`,
    topics: `
      dor de cabeça, dor de barriga, dor nas costas, dor de garganta, dor no peito, enxaqueca*,
      febre, tosse, náusea*, vômito*, diarreia, tontura*, tonto, coceira, ibuprofeno, paracetamol,
      aspirina, dipirona, antibiótico*, remédio*, comprimido*, pressão alta, pressão arterial,
      exame de sangue, sintoma*, infecção, alergia*, diabetes, câncer, grávida*, gravidez,
      depressão, gripe, catapora, dose, dosagem, efeitos colaterais, pílula, queimadura, pomada`,
    loose: `dor, cabeça, garganta, peito, cansad*`,
    strong: `
      estou com dor, estou com febre, efeitos colaterais d*, dose de, dosagem de, está com febre`,
    against: `computador, hospital mais próximo`,
  },
  legal: {
    asks: `
      posso, meu chefe pode, pode me, é legal, é ilegal, é crime, tenho direito, tenho que, devo,
      quais são meus direitos, o que posso fazer, redija, escreva, elabore, se recusa, quanto tempo`,
    topics: `
      proprietário, inquilino*, aluguel, caução, contrato de aluguel, contrato de trabalho,
      contrato, demitir*, demissão, justa causa, rescisão, divórcio, guarda d*, pensão alimentícia,
      testamento, herança, advogado, processar, processo, multa, indenização, danos morais,
      direitos autorais, termos de uso, procuração, despej*, sublocar, boletim de ocorrência,
      garantia legal`,
    loose: `direitos, tribunal, lei, vizinho, cláusula, reembolso`,
    strong: `
      meus direitos, é legal, é ilegal, é crime, posso processar, redija um contrato,
      contrato de aluguel, me demitir, quebra de contrato, devolver a caução`,
    against: `lei da gravidade, constituição, lei de murphy`,
  },
  'financial-advice': {
    asks: `
      devo, deveria, vale a pena, é um bom momento, onde invisto, onde investir, como investir,
      quanto devo, qual, quais, recomend*, aconselh*, agora, você deveria`,
    topics: `
      ações, bolsa, etf, renda fixa, tesouro direto, investir, investimento*, bitcoin, cripto*,
      poupança, previdência, aposentadoria, financiamento, empréstimo, imposto de renda, deduzir,
      carteira de, dividendos, dívidas, seguro de vida, fundos imobiliários, fundo, imóve*`,
    loose: `dinheiro, comprar, vender, vender minhas, alugar, ouro, casa, guardar`,
    strong: `
      devo investir, vale a pena investir, comprar ou alugar, alugar ou comprar, quais ações,
      vender minhas ações, investir meu dinheiro, pagar menos imposto, onde investir,
      em que investir`,
    against: `bolsa de estudos, bolsa de valores, comprar pão`,
  },
  'personal-data': {
    asks: `
      encontre, ache, descubra, procure, me dê, me diga, onde mora, de quem é, qual é, qual o,
      quem é, localize, identifique, quantos anos tem`,
    leads: `meu, minha, seu, sua, nasci, mora em`,
    topics: `
      endereço d*, endereço residencial, telefone d*, número de telefone d*, ex-namorad*, minha ex,
      meu ex, meu vizinho, minha vizinha, meu colega, data de nascimento, prontuário, placa d*,
      cpf de, seu endereço`,
    loose: `endereço, número, telefone, mora, vizinho`,
    strong: `
      meu nome é, me chamo, nasci em, moro na rua, onde mora minha, onde mora meu,
      telefone da minha, endereço do meu, endereço da minha`,
    against: `
      presidente, biblioteca, prefeitura, museu, atendimento ao cliente, animais, urso*, estação`,
  },
}
