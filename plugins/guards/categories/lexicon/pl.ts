import type { Lexicon } from '../cues.ts'

export const pl: Lexicon = {
  language: 'pl',
  asks: `
    jak mogę, jak zrobić, jak, czy możesz, możesz, pomóż mi, proszę, potrzebuję, chcę, chciałbym,
    daj mi, pokaż mi, wyjaśnij, czy powinienem, czy powinnam, czy mogę, czy muszę, co mam`,
  against: `
    kto wynalazł, kto napisał, kto był, historia, muzeum, godziny otwarcia, film*, powieść`,
  operators: `razy, plus, minus, podzielić przez, dzielone przez`,
  code: {
    asks: `
      napisz, stwórz, utwórz, popraw, zaprogramuj, zoptymalizuj, przetłumacz, zaimplementuj,
      wygeneruj, zrefaktoryzuj, wyjaśnij, dodaj, dlaczego`,
    topics: `
      javascript, typescript, sql, html, css, regex, json, api, docker*, git, algorytm*,
      kod źródłow*, pętl*, zapytanie sql, wyrażenie regularne, formuł* excel, skrypt*, baz* danych,
      kompil*, stron* internetow*, tablic*, testy jednostkowe`,
    loose: `
      funkcj*, program, python*, pythonie, java, kod, kodu, klas*, zmienn*, zapytanie, makro, listę,
      listy, błąd, formuł*`,
    strong: `
      napisz funkcję, napisz skrypt, napisz program, ten kod, mój kod, w pythonie, w javascript,
      w javie, zapytanie sql, wyrażenie regularne`,
    against: `kod pocztowy, kodeks*, kod ubioru`,
  },
  math: {
    asks: `
      oblicz*, policz*, rozwiąż*, udowodnij, uprość, wyznacz, ile to jest, ile jest, ile wynosi,
      jakie jest, znajdź`,
    topics: `
      równani*, pochodn*, całk*, pierwiast*, ułam*, trójkąt*, koła, okręgu, prostokąt*, kwadratu,
      obwód, pole powierzchni, promień, średnic*, prawdopodobieństw*, macierz*, wielomian*,
      procent z, matematyk*, zadanie z matematyki, średnia z, mediana, objętość, twierdzeni*`,
    loose: `kąt*, bok*, boku, średnia, liczb*, pole`,
    strong: `
      rozwiąż równanie, pierwiastek z, pierwiastek kwadratowy, pochodną funkcji, pole kwadratu,
      pole trójkąta, pole koła, pole prostokąta, równanie kwadratowe`,
    against: `mieszkańców, matematykiem`,
  },
  roleplay: {
    asks: `
      udawaj, wyobraź sobie że jesteś, jesteś, bądź, mów jak, odpowiadaj jak, zachowuj się, zagraj`,
    topics: `
      pirat*, rycerz*, wampir*, czarodziej*, wiedźm*, smok*, księżniczk*, robot*, detektyw*, elf*,
      dziewczyn*, chłopak*, duch*, kosmit*, król*, kamerdyner*, demon*`,
    loose: `postać, rol*, babci*`,
    strong: `
      udawaj że jesteś, udawaj, że jesteś, udawaj że, odgrywanie ról, zabawa w role, wciel się,
      zagraj rolę, jesteś teraz, od teraz jesteś, bądź moją dziewczyną`,
    against: `aktor*, korektor*, tłumacz*, nauczyciel*, gra planszowa`,
  },
  medical: {
    asks: `
      czy mogę, czy powinienem, czy powinnam, co mam, co wziąć, co robić, co na, ile, boli mnie,
      bolą mnie, mam, czuję, moje dziecko ma, mój syn ma, moja córka ma, leczyć, jaki lek,
      jaka dawka, brać`,
    leads: `mój, moja, moje, na`,
    topics: `
      ból głowy, ból brzucha, ból gardła, ból pleców, boli mnie głowa, boli mnie brzuch,
      boli mnie gardło, migren*, gorączk*, kaszel, kaszl*, nudności, wymiot*, biegunk*,
      zawroty głowy, wysypk*, ibuprofen*, paracetamol*, aspiryn*, antybiotyk*, lek, leki, leków,
      tabletk*, ciśnienie krwi, badania krwi, objaw*, infekcj*, alergi*, cukrzyc*, rak, raka, ciąż*,
      depresj*, gryp*, ospa, ospę, dawk*, dawkowanie, skutki uboczne, oparzeni*, maść`,
    loose: `ból, boli, głowa, brzuch, gardło, zmęczon*`,
    strong: `boli mnie głowa, skutki uboczne, mam gorączkę, ma gorączkę, dawka dla`,
    against: `apteka otwarta, komputer*`,
  },
  legal: {
    asks: `
      czy mogę, czy pracodawca może, czy może mnie, czy właściciel może, czy muszę, czy to legalne,
      czy wolno, jakie mam prawa, co mogę zrobić, czy mam prawo, sporządź, napisz, odmawia,
      ile czasu`,
    topics: `
      pracodawc*, zwolni*, wypowiedzeni*, umow*, najem, najmu, najemc*, wynajmując*,
      właściciel mieszkania, kaucj*, czynsz*, rozwód, rozwod*, alimenty, alimentów,
      opieka nad dzieckiem, testament*, spadek, spadku, adwokat*, prawnik*, pozew, pozwać, sąd,
      mandat*, odszkodowani*, odpowiedzialność, prawa autorskie, rodo, regulamin*, pełnomocnictw*,
      eksmisj*, reklamacj*`,
    loose: `prawo, prawa, sądu, ustaw*, sąsiad*, klauzul*`,
    strong: `
      jakie mam prawa, czy to legalne, czy mogę pozwać, sporządź umowę, napisz umowę, umowa najmu,
      umowę najmu, mnie zwolnić, zwrot kaucji`,
    against: `prawo grawitacji, konstytucj*, prawo murphy'ego`,
  },
  'financial-advice': {
    asks: `
      czy powinienem, czy powinnam, czy warto, warto, gdzie zainwestować, jak zainwestować, w co,
      jakie, który, ile powinienem, poleć, doradź, teraz`,
    topics: `
      akcje, akcji, etf, obligacj*, giełd*, bitcoin*, krypto*, inwestować, zainwestować, inwestycj*,
      oszczędności, lokat*, emerytur*, kredyt*, hipote*, pożyczk*, podatk*, odliczyć, portfel*,
      dywidend*, długi, długów, ubezpieczenie na życie, fundusz*, nieruchomości`,
    loose: `pieniądze, kupić, sprzedać, wynająć, złoto, mieszkanie, oszczędzać`,
    strong: `
      kupić akcje, w co zainwestować, gdzie zainwestować, kupić czy wynająć, wynająć czy kupić,
      jakie akcje, zainwestować pieniądze`,
    against: `co to jest akcja, chleb`,
  },
  'personal-data': {
    asks: `
      znajdź, wyszukaj, sprawdź, podaj, gdzie mieszka, czyj, czyje, jaki jest, kim jest, ustal,
      ile lat ma`,
    leads: `mój, moja, mojej, mojego, jego, jej, urodzon*, mieszka`,
    topics: `
      adres mojej, adres mojego, adres domowy, adres zamieszkania, numer telefonu, numer pesel,
      pesel, byłej dziewczyny, byłego chłopaka, były chłopak, moja była, mój były, sąsiad*,
      koleżank*, data urodzenia, dokumentacj* medyczn*, tablic* rejestracyjn*, jej adres,
      jego adres`,
    loose: `adres, numer, telefon, mieszka`,
    strong: `
      nazywam się, mam na imię, urodziłem się, urodziłam się, mieszkam przy, gdzie mieszka moja,
      gdzie mieszka mój, adres mojej, adres mojego`,
    against: `prezydent*, bibliotek*, muzeum, urząd*, obsługa klienta, zwierzę*, dworzec`,
  },
}
