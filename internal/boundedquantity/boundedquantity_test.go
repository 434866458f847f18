package boundedquantity_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/keelson-dev/keelson/internal/boundedquantity"
)

func TestExponent(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "1": 0, "1E": 0, "1Ei": 0, "1e3": 3, "1E3": 3, "1e+3": 3, "1e-3": 3, "-1.5e-100": 100, "\t1e4\n": 4, "1e": 0, "e": 0, "1e-": 0,
		"1e-99999999": 99999999, "8099999909E9999099999999995": 9999099999999995, "1e-9223372036854775808": 1 << 62, "1e9223372036854775807": math.MaxInt64,
		"1e99999999999999999999": 0, // no quantity
	} {
		if got := boundedquantity.Exponent(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"1", "100m", "1Gi", "1e3", "1e-9", "1E100", "1e-100"} {
		got, err := boundedquantity.Parse(text)
		if want := resource.MustParse(text); err != nil || got.Cmp(want) != 0 {
			t.Errorf("%s: %s, %v", text, got.String(), err)
		}
	}
	for text, want := range map[string]string{"1e101": "between -100 and 100", "1e-101": "between -100 and 100", "8099999909E9999099999999995": "between -100 and 100", "x": "quantities must match"} {
		began := time.Now()
		if _, err := boundedquantity.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s after %v: %v", text, time.Since(began), err)
		}
	}
}

func TestSuspicious(t *testing.T) {
	for text, want := range map[string]bool{
		"": false, "e": false, "1e999": false, "1e1000": true, "1E-1000": true, "1.e+1000": true, ".1e-1000": true, "xe1000": false, "1e-100x": false, "1e-": false, "1e100": false, "1e": false,
		`"cpu":"1e-99999999"`: true, "\n\x0b1e-99999999\x12": true, `1\u0065-99999999`: true, `\n`: false, `\`: false, "e1000": false, "1ee1000": false, "1e--1000": false,
		"one, two and three elephants; 12 eggs": false,
	} {
		if got := boundedquantity.Suspicious([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
