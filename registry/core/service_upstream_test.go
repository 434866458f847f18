package core_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/keelson-dev/keelson/registry"
	"github.com/keelson-dev/keelson/registry/allocation"
	"github.com/keelson-dev/keelson/storage/memory"
)

var upstreamServices = flag.String("services", "testdata/services.json", "file of the sequences that upstream's code answered")

// sequence is the answers of upstream's code to random requests, recorded by the module conformance/services.
// Tokens stand for chosen addresses and ports.
type sequence struct {
	Networks []string
	Ports    string
	Steps    []struct {
		Do, Name     string
		DryRun       bool
		Spec, Result json.RawMessage
		Error        string
		Taken        []int
	}
}

// chosen matches addresses and ports of the upper bands in a text.
var chosen = regexp.MustCompile(`\b(30(0(1[6-9]|[2-9]\d)|1\d\d)|10\.96\.0\.(1[7-9]|[2-9]\d|\d\d\d)|fd00::[1-9a-f][0-9a-f])\b`)

// TestServicesAsUpstream replays recorded sequences of requests: every answer is upstream's, and the same
// number is allocated after every step.
func TestServicesAsUpstream(t *testing.T) {
	file, err := os.Open(*upstreamServices)
	if err != nil {
		t.Fatalf("upstream's answers are not recorded (conformance/services does): %v", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	n := 0
	for ; lines.Scan(); n++ {
		var q sequence
		if err := json.Unmarshal(lines.Bytes(), &q); err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) { q.play(t) })
	}
	if err := lines.Err(); err != nil || n == 0 {
		t.Errorf("%d sequences: %v", n, err)
	}
}

func (q *sequence) play(t *testing.T) {
	ports, err := allocation.ParsePortRange(q.Ports)
	if err != nil {
		t.Fatal(err)
	}
	s := serveRange(t, memory.New(memory.Options{}), ports, q.Networks...)
	if err := s.ports.Init(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	known := map[string]*called{}
	for i, step := range q.Steps {
		had := known[step.Name]
		if step.Do == "delete" {
			s.remove(step.Name)
			delete(known, step.Name)
		} else {
			next := &called{tokens: map[string]string{}}
			if step.Do == "update" {
				next = &called{tokens: maps.Clone(had.tokens), next: had.next}
			}
			var spec corev1.ServiceSpec
			if err := json.Unmarshal(step.Spec, &spec); err != nil {
				t.Fatal(err)
			}
			had.unmask(&spec)
			svc, err := s.send(step.Do, step.Name, spec, step.DryRun)
			told := ""
			if err != nil {
				told = strings.ReplaceAll(upstreamError(step.Name, err), q.Ports, "<range>")
				told = chosen.ReplaceAllString(had.replace(told), "<chosen>")
			} else {
				got := svc.Spec.DeepCopy()
				next.mask(got)
				compareSpec(t, got, step.Result)
				next.forget(&svc.Spec)
				if !step.DryRun {
					known[step.Name] = next
				}
			}
			if told != step.Error {
				t.Errorf("told\n\t%s\nupstream\n\t%s", told, step.Error)
			}
		}
		if got := s.count(q.Networks); !reflect.DeepEqual(got, step.Taken) {
			t.Errorf("taken: %v, upstream %v: %v", got, step.Taken, s.taken())
		}
		if t.Failed() {
			t.Fatalf("at step %d: %s %s, dry run %v, %s", i, step.Do, step.Name, step.DryRun, step.Spec)
		}
	}
	s.consistent()
}

func (s *server) send(do, name string, spec corev1.ServiceSpec, dry bool) (*corev1.Service, error) {
	if do == "create" {
		return s.create(withType(name, spec.Type, func(svc *corev1.Service) { svc.Spec = spec }), dry)
	}
	return s.update(name, func(svc *corev1.Service) { svc.Spec = spec }, dry)
}

// count returns how many addresses of each network, and how many ports, are allocated.
func (s *server) count(networks []string) []int {
	s.t.Helper()
	list, err := s.registry.Access().List(s.t.Context(), schema.GroupResource{Group: networkingv1.GroupName, Resource: "ipaddresses"}, "")
	if err != nil {
		s.t.Fatal(err)
	}
	counts := make([]int, len(networks)+1)
	for _, obj := range list {
		for i, network := range networks {
			if netip.MustParsePrefix(network).Contains(netip.MustParseAddr(obj.GetName())) {
				counts[i]++
			}
		}
	}
	ports, err := s.ports.Taken(s.t.Context())
	if err != nil && !errors.Is(err, allocation.ErrNotReady) {
		s.t.Fatal(err)
	}
	counts[len(networks)] = len(ports)
	return counts
}

func compareSpec(t *testing.T, got *corev1.ServiceSpec, want json.RawMessage) {
	t.Helper()
	data, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := errors.Join(json.Unmarshal(data, &a), json.Unmarshal(want, &b)); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(a, b) {
		t.Errorf("got\n\t%s\nupstream\n\t%s", data, want)
	}
}

// upstreamError returns an error in the words of upstream's registry.
func upstreamError(name string, err error) string {
	var e *registry.Error
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case errors.Is(err, registry.ErrInvalid):
		return apierrors.NewInvalid(schema.GroupKind{Kind: e.Kind}, e.Name, e.Fields).Error()
	case errors.Is(err, registry.ErrInternal):
		return apierrors.NewInternalError(errors.New(e.Message)).Error()
	case errors.Is(err, registry.ErrExists):
		return fmt.Sprintf("services %q already exists", name)
	}
	return err.Error()
}

// called knows the tokens of the values chosen for a service.
type called struct {
	tokens map[string]string // value → token
	next   int
}

func (c *called) token(value string, name func(int) string) string {
	if c.tokens[value] == "" {
		c.next++
		c.tokens[value] = name(c.next)
	}
	return c.tokens[value]
}

// mask replaces addresses and ports of the upper bands with tokens.
func (c *called) mask(spec *corev1.ServiceSpec) {
	address := func(ip string) string {
		addr, err := netip.ParseAddr(ip)
		if err != nil || addr.Is4() && addr.As4()[3] <= 16 || addr.Is6() && addr.As16()[15] <= 16 {
			return ip
		}
		prefix := "192.0.2."
		if addr.Is6() {
			prefix = "2001:db8::"
		}
		return c.token(ip, func(n int) string { return prefix + fmt.Sprint(n) })
	}
	port := func(p int32) int32 {
		if p < 30016 || p > 30199 {
			return p
		}
		var n int32
		fmt.Sscan(c.token(fmt.Sprint(p), func(n int) string { return fmt.Sprint(40000 + n) }), &n)
		return n
	}
	c.each(spec, address, port)
}

// unmask replaces tokens with values; a missing service has no tokens.
func (c *called) unmask(spec *corev1.ServiceSpec) {
	if c == nil {
		return
	}
	values := map[string]string{}
	for value, token := range c.tokens {
		values[token] = value
	}
	c.each(spec, func(ip string) string {
		if value := values[ip]; value != "" {
			return value
		}
		return ip
	}, func(p int32) int32 {
		fmt.Sscan(values[fmt.Sprint(p)], &p)
		return p
	})
}

func (c *called) each(spec *corev1.ServiceSpec, address func(string) string, port func(int32) int32) {
	for i, ip := range spec.ClusterIPs {
		spec.ClusterIPs[i] = address(ip)
	}
	spec.ClusterIP = address(spec.ClusterIP)
	for i := range spec.Ports {
		spec.Ports[i].NodePort = port(spec.Ports[i].NodePort)
	}
	spec.HealthCheckNodePort = port(spec.HealthCheckNodePort)
}

// forget drops the tokens of values that the service no longer has.
func (c *called) forget(spec *corev1.ServiceSpec) {
	has := map[string]bool{}
	(&called{}).each(spec.DeepCopy(), func(ip string) string { has[ip] = true; return ip }, func(p int32) int32 {
		has[fmt.Sprint(p)] = true
		return p
	})
	maps.DeleteFunc(c.tokens, func(value, _ string) bool { return !has[value] })
}

// replace inserts tokens into a text.
func (c *called) replace(text string) string {
	if c == nil {
		return text
	}
	for value, token := range c.tokens {
		text = strings.ReplaceAll(text, value, token)
	}
	return text
}
