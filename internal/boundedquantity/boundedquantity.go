// Package boundedquantity is about quantities that are small as text and large as numbers. To parse or compare 1e-99999999,
// k8s.io/apimachinery computes ten to the power of a hundred million, which takes minutes that nothing can cut short.
package boundedquantity

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// most is the largest exponent that Parse accepts; no amount of anything has half as many digits.
const most = 100

// Exponent returns the decimal exponent of a quantity without its sign, 0 if it has none. It may be more than fits into
// memory; of a text that is no quantity it is anything.
func Exponent(text string) int {
	text = strings.TrimSpace(text)
	at := strings.LastIndexAny(text, "eE")
	if at < 0 || at == len(text)-1 {
		return 0
	}
	exponent, err := strconv.ParseInt(text[at+1:], 10, 64)
	if err != nil {
		return 0 // a suffix, or no quantity
	}
	return int(max(exponent, -max(exponent, -1<<62)))
}

// Parse is resource.ParseQuantity, but refuses exponents beyond 100.
func Parse(text string) (resource.Quantity, error) {
	if e := Exponent(text); e > most {
		return resource.Quantity{}, fmt.Errorf("the exponent of a quantity must be between -%d and %d", most, most)
	}
	return resource.ParseQuantity(text)
}

// Suspicious reports whether a text of any kind may contain a quantity with an exponent of four digits or more. Escaped
// characters are suspicious, too.
func Suspicious(data []byte) bool {
	for i, c := range data {
		switch {
		case c == '\\' && i+1 < len(data) && data[i+1] == 'u':
			return true
		case c|0x20 != 'e' || i == 0 || !digit(data[i-1]) && data[i-1] != '.':
			continue
		}
		rest := data[i+1:]
		if len(rest) > 0 && (rest[0] == '-' || rest[0] == '+') {
			rest = rest[1:]
		}
		if len(rest) >= 4 && digit(rest[0]) && digit(rest[1]) && digit(rest[2]) && digit(rest[3]) {
			return true
		}
	}
	return false
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
