package check_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/keelson-dev/keelson/registry/internal/check"
)

func TestChecks(t *testing.T) {
	p := field.NewPath("x")
	for _, c := range []struct {
		name string
		errs field.ErrorList
		want string // the errors, joined by "; "; of a message only its beginning
	}{
		{"label", check.DNSLabel(p, "a"), ""},
		{"no label", check.DNSLabel(p, "a.b"), `x: Invalid value: "a.b": must not contain dots`},
		{"no subdomain", check.DNSSubdomain(p, "a_b"), `x: Invalid value: "a_b": a lowercase RFC 1123 subdomain must`},
		{"no qualified name", check.QualifiedName(p, "/a"), `x: Invalid value: "/a": prefix part must be non-empty`},
		{"port", check.PortNumber(p, 65535), ""},
		{"no port", check.PortNumber(p, 0), `x: Invalid value: 0: must be between 1 and 65535, inclusive`},
		{"port name", check.PortNumberOrName(p, intstr.FromString("http")), ""},
		{"no port name", check.PortNumberOrName(p, intstr.FromString("1")), `x: Invalid value: "1": must contain at least one letter (a-z)`},
		{"port of neither kind", check.PortNumberOrName(p, intstr.IntOrString{Type: 5}), `x: Internal error: unknown type: 5`},
		{"negative", check.Nonnegative(p, int32(-1)), `x: Invalid value: -1: must be greater than or equal to 0`},
		{"unset", check.NonnegativeIfSet(p, nil), ""},
		{"protocol", check.Protocol(p, ""), `x: Required value`},
		{"no protocol", check.Protocol(p, "QUIC"), `x: Unsupported value: "QUIC": supported values: "SCTP", "TCP", "UDP"`},
		{"one of", check.OneOf(p, corev1.ProtocolTCP, corev1.ProtocolTCP), ""},
		{"same", check.Immutable(p, []string{}, []string(nil)), ""},
		{"changed", check.Immutable(p, "a", "b"), `x: Invalid value: "a": field is immutable`},
		{"old IP", check.IP(p, "010.0.0.1", []string{"010.0.0.1"}), ""},
		{"IPv4 as IPv6", check.IP(p, "::ffff:1.2.3.4", nil), `x: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address`},
		{"network with host bits", check.CIDR(p, "10.0.0.1/8", nil), `x: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length`},
		{"endpoint", check.EndpointIP(p, "fe80::1"), `x: Invalid value: "fe80::1": may not be in the link-local range (169.254.0.0/16, fe80::/10)`},
		{"an endpoint elsewhere", check.EndpointIP(p, "192.0.2.1"), ""},
		{"an old endpoint", check.EndpointIP(p, "192.000.2.1"), ""},
		{"no endpoint", check.EndpointIP(p, "x"), `x: Invalid value: "x": must be a valid IP address`},
		{"endpoint anywhere", check.EndpointIP(p, "0.0.0.0"), `x: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)`},
		{"endpoint here", check.EndpointIP(p, "::1"), `x: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)`},
		{"endpoint for all", check.EndpointIP(p, "ff02::1"), `x: Invalid value: "ff02::1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)`},
		{"node", check.NodeName(p, "a.b"), ""},
		{"no node", check.NodeName(p, "a-"), `x: Invalid value: "a-": a lowercase RFC 1123 subdomain must`},
		{"percent", check.IntOrPercent(p, intstr.FromString("200%")), ""},
		{"an amount", check.IntOrPercent(p, intstr.FromInt32(0)), ""},
		{"a negative amount", check.IntOrPercent(p, intstr.FromInt32(-1)), `x: Invalid value: -1: must be greater than or equal to 0`},
		{"neither amount nor percent", check.IntOrPercent(p, intstr.IntOrString{Type: 7}), `x: Invalid value: intstr.IntOrString{Type:7, IntVal:0, StrVal:""}: must be an integer or percentage (e.g '5%%')`},
		{"no percent", check.IntOrPercent(p, intstr.FromString("2")), `x: Invalid value: "2": a valid percent string must`},
		{"whole", check.AtMost100Percent(p, intstr.FromString("100%")), ""},
		{"more than the whole", check.AtMost100Percent(p, intstr.FromString("101%")), `x: Invalid value: "101%": must not be greater than 100%`},
		{"more than an int", check.AtMost100Percent(p, intstr.FromString("99999999999999999999%")),
			`x: Invalid value: "99999999999999999999%": must not be greater than 100%`},
		{"a whole that is no percentage", check.AtMost100Percent(p, intstr.FromString("101")), ""},
		{"a word of four letters", check.AtMost100Percent(p, intstr.FromString("1010")), ""},
		{"neither number nor text", check.AtMost100Percent(p, intstr.IntOrString{Type: 5, StrVal: "101%"}), ""},
		{"number", check.AtMost100Percent(p, intstr.FromInt32(500)), ""},
	} {
		var got []string
		for _, e := range c.errs {
			got = append(got, e.Error())
		}
		if joined := strings.Join(got, "; "); joined != c.want && (c.want == "" || !strings.HasPrefix(joined, c.want)) {
			t.Errorf("%s: %s\nwant %s", c.name, joined, c.want)
		}
	}
}

func TestIsZero(t *testing.T) {
	for value, want := range map[string]bool{"0": true, "0%": true, "1": false, "1%": false, "x": true, "99999999999999999999%": false} {
		if got := check.IsZero(intstr.Parse(value)); got != want {
			t.Errorf("%s: %t", value, got)
		}
	}
}

func TestDeprecatedNodeLabel(t *testing.T) {
	for key, want := range map[string]string{
		"beta.kubernetes.io/arch":                       `deprecated since v1.14; use "kubernetes.io/arch" instead`,
		"beta.kubernetes.io/os":                         `deprecated since v1.14; use "kubernetes.io/os" instead`,
		"failure-domain.beta.kubernetes.io/region":      `deprecated since v1.17; use "topology.kubernetes.io/region" instead`,
		"failure-domain.beta.kubernetes.io/zone":        `deprecated since v1.17; use "topology.kubernetes.io/zone" instead`,
		"beta.kubernetes.io/instance-type":              `deprecated since v1.17; use "node.kubernetes.io/instance-type" instead`,
		"scheduler.alpha.kubernetes.io/preferAvoidPods": "deprecated since v1.22; use Taints and Tolerations instead",
		"app.kubernetes.io/created-by":                  "deprecated since v1.9",
		"node-role.kubernetes.io/master":                `use "node-role.kubernetes.io/control-plane" instead`,
		"kubernetes.io/arch":                            "",
	} {
		if text, deprecated := check.DeprecatedNodeLabel(key); text != want || deprecated != (want != "") {
			t.Errorf("%s: %q, %t", key, text, deprecated)
		}
	}
}

// TestDeclared: what is declared is said in the words of the declaration, and what is not covered by one as it is written.
func TestDeclared(t *testing.T) {
	p := field.NewPath("x")
	written := func(origin string) *field.Error { return field.Invalid(p, "a", "written").WithOrigin(origin) }
	declared := field.Invalid(p, "a", "declared").WithOrigin("o")
	for name, c := range map[string]struct {
		written, declared field.ErrorList
		want              string
	}{
		"nothing":         {nil, nil, ""},
		"covered":         {field.ErrorList{written("o").MarkCoveredByDeclarative()}, field.ErrorList{declared}, "declared"},
		"of another rule": {field.ErrorList{written("p").MarkCoveredByDeclarative()}, field.ErrorList{declared}, "written declared"},
		"not covered":     {field.ErrorList{written("o")}, field.ErrorList{declared}, "written declared"},
		"covered in vain": {field.ErrorList{written("o").MarkCoveredByDeclarative()}, nil, "written"},
	} {
		var got []string
		for _, e := range check.Declared(c.written, c.declared) {
			got = append(got, e.Detail)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
