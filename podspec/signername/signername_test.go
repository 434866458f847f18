package signername_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/podspec/signername"
)

const label = `a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')`
const subdomain = `a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`

func TestValidate(t *testing.T) {
	long := strings.Repeat("a", 63)
	domain := strings.Join([]string{long, long, long, long[:61]}, ".") // 253 bytes
	path := strings.Repeat("a", 63) + "." + strings.Repeat("b", 253)
	for name, want := range map[string][]string{
		"example.com/ca":               nil,
		"example.com/ns.name":          nil,
		domain + "/" + path:            nil,
		"":                             {"s: Required value"},
		"example.com":                  {`s: Invalid value: "example.com": must be a fully qualified domain and path of the form 'example.com/signer-name'`},
		"example.com/a/b":              {`s: Invalid value: "example.com/a/b": must be a fully qualified domain and path of the form 'example.com/signer-name'`},
		"com/a":                        {`s: Invalid value: "com": should be a domain with at least two segments separated by dots`},
		"Example.COM/a":                {`s: Invalid value: "Example.COM": validating label "Example": ` + label},
		"example.COM/a":                {`s: Invalid value: "example.COM": validating label "COM": ` + label},
		"example.com/A.B":              {`s: Invalid value: "A.B": validating label "A": ` + subdomain},
		"a." + domain + "/a":           {"s: Too long: may not be more than 253 bytes"},
		domain + "/" + path + ".c.c":   {"s: Too long: may not be more than 571 bytes"},
		"a." + domain + "/" + path:     {"s: Too long: may not be more than 253 bytes", "s: Too long: may not be more than 571 bytes"},
		"kubernetes.io/legacy-unknown": nil,
	} {
		var got []string
		for _, err := range signername.Validate(field.NewPath("s"), name) {
			got = append(got, err.Error())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

func TestKubernetes(t *testing.T) {
	for name, want := range map[string]bool{
		"kubernetes.io/a": true, "x.kubernetes.io/a": true, "xkubernetes.io/a": false, "example.com/kubernetes.io": false,
	} {
		if got := signername.Kubernetes(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestTrustBundle(t *testing.T) {
	for _, tt := range []struct {
		signer, name string
		prefix       bool
		want         []string
	}{
		{"", "a.b", false, nil},
		{"", "a-", true, nil},
		{"", "a:b", false, []string{`ClusterTrustBundle without signer name must not have ":" in its name`}},
		{"", "A", false, []string{subdomain}},
		{"example.com/a", "example.com:a:b", false, nil},
		{"example.com/a", "example.com:a:b-", true, nil},
		{"example.com/a", "example.com:a:b-", false, []string{subdomain}},
		{"example.com/a", "b", false, []string{"ClusterTrustBundle for signerName example.com/a must be named with prefix example.com:a:"}},
	} {
		if got := signername.TrustBundle(tt.signer, tt.name, tt.prefix); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}

func TestAnnotations(t *testing.T) {
	p := field.NewPath("a")
	if errs := signername.Annotations(p, map[string]string{"example.com/X": ""}); len(errs) > 0 {
		t.Error(errs)
	}
	if errs := signername.Annotations(p, map[string]string{"b": "", "a": ""}); len(errs) != 2 || errs[0].BadValue != "a" {
		t.Error(errs)
	}
	errs := signername.Annotations(p, map[string]string{"example.com/x": strings.Repeat("x", 256<<10)})
	if len(errs) != 1 || errs[0].Error() != "a: Too long: may not be more than 262144 bytes" {
		t.Error(errs)
	}
}

func Example() {
	fmt.Println(signername.Validate(field.NewPath("spec", "signerName"), "example.com"))
	// Output: [spec.signerName: Invalid value: "example.com": must be a fully qualified domain and path of the form 'example.com/signer-name']
}
