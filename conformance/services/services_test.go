package services

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
)

var (
	record    = flag.Bool("record", false, "write the sequences that keelson's own test holds")
	sequences = flag.Int("sequences", 200, "how many random sequences")
	seed      = flag.Uint64("seed", 1, "of the random sequences")
)

const (
	// kept is how many sequences are recorded, steps how many steps each has.
	kept, steps = 16, 24
	root        = "../.."
	tests       = "registry/core"
	file        = tests + "/testdata/services.json"
	ports       = "30000-30199"
)

// chosen matches allocated addresses and ports, which are in the upper bands.
var chosen = regexp.MustCompile(`\b(30(0(1[6-9]|[2-9]\d)|1\d\d)|10\.96\.0\.(1[7-9]|[2-9]\d|\d\d\d)|fd00::[1-9a-f][0-9a-f])\b`)

// TestServices runs random sequences on upstream's code and keelson's test to compare.
func TestServices(t *testing.T) {
	klog.LogToStderr(false)
	klog.SetOutput(io.Discard)
	n, to := *sequences, filepath.Join(t.TempDir(), "services.json")
	if *record {
		n, to = kept, filepath.Join(root, file)
	}
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	for i := range n {
		if err := encoder.Encode(play(t, rand.New(rand.NewPCG(*seed, uint64(i))))); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	if to, err = filepath.Abs(to); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "test", "./"+tests, "-count=1", "-run", "^TestServicesAsUpstream$", "-services", to)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("keelson answers otherwise: %v\n%s", err, out)
	}
}

func play(t *testing.T, r *rand.Rand) Sequence {
	t.Helper()
	q := Sequence{Ports: ports, Networks: pick(r, []string{"10.96.0.0/24"}, []string{"10.96.0.0/24", "fd00::/120"}, []string{"fd00::/120", "10.96.0.0/24"})}
	s, err := newServer(q.Networks, q.Ports)
	if err != nil {
		t.Fatal(err)
	}
	for range steps {
		q.Steps = append(q.Steps, s.step(t, r))
	}
	return q
}

// step makes one random request.
func (s *server) step(t *testing.T, r *rand.Rand) Step {
	t.Helper()
	name := pick(r, "a", "b", "c", "d")
	had := s.services[name]
	if had != nil && r.IntN(8) == 0 {
		s.remove(name)
		delete(s.services, name)
		return Step{Do: "delete", Name: name, Taken: s.taken()}
	}
	step := Step{Do: "create", Name: name, DryRun: r.IntN(6) == 0}
	sent := randomSpec(r)
	next := &stored{tokens: map[string]string{}}
	if had != nil && r.IntN(10) > 0 {
		step.Do = "update"
		for value, token := range had.tokens {
			next.tokens[value] = token
		}
		next.next = had.next
		if r.IntN(3) > 0 { // a client that has read it
			v1, err := external(had.Service)
			if err != nil {
				t.Fatal(err)
			}
			sent = v1.Spec
			for range 1 + r.IntN(2) {
				change(r, &sent)
			}
		}
	}
	if sent.Type == corev1.ServiceTypeExternalName {
		// Upstream does not allocate node ports that clients set in services of types without them, but a delete frees
		// them. Keelson does not.
		sent = *sent.DeepCopy()
		for i := range sent.Ports {
			sent.Ports[i].NodePort = 0
		}
	}
	step.Spec = spec(t, had, sent)
	var err error
	if step.Do == "update" {
		next.Service, err = s.update(name, sent, step.DryRun)
	} else {
		next.Service, err = s.create(name, sent, step.DryRun)
	}
	if errors.Is(err, errPanic) { // the error is then of no use for comparison
		s.repair()
		return s.step(t, r)
	}
	if err != nil {
		step.Error = strings.ReplaceAll(err.Error(), ports, "<range>")
		if had != nil {
			step.Error = had.replace(step.Error)
		}
		step.Error = chosen.ReplaceAllString(step.Error, "<chosen>")
		s.repair()
	} else {
		v1, err := external(next.Service)
		if err != nil {
			t.Fatal(err)
		}
		step.Result = spec(t, next, v1.Spec)
		next.forget(&v1.Spec)
		if !step.DryRun {
			s.services[name] = next
		}
	}
	step.Taken = s.taken()
	return step
}

// spec returns a spec as JSON with tokens for allocated values.
func spec(t *testing.T, of *stored, v1 corev1.ServiceSpec) json.RawMessage {
	t.Helper()
	v1 = *v1.DeepCopy()
	if of != nil {
		of.mask(&v1)
	}
	data, err := json.Marshal(v1)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// mask replaces addresses and ports of the upper bands, which were allocated, by tokens: a value keeps its token as
// long as the service keeps the value.
func (s *stored) mask(spec *corev1.ServiceSpec) {
	for i, ip := range spec.ClusterIPs {
		spec.ClusterIPs[i] = s.address(ip)
	}
	spec.ClusterIP = s.address(spec.ClusterIP)
	for i := range spec.Ports {
		spec.Ports[i].NodePort = s.port(spec.Ports[i].NodePort)
	}
	spec.HealthCheckNodePort = s.port(spec.HealthCheckNodePort)
}

func (s *stored) address(ip string) string {
	addr, err := netip.ParseAddr(ip)
	if err != nil || addr.Is4() && addr.As4()[3] <= 16 || addr.Is6() && addr.As16()[15] <= 16 {
		return ip
	}
	prefix := "192.0.2."
	if addr.Is6() {
		prefix = "2001:db8::"
	}
	return s.token(ip, func(n int) string { return prefix + fmt.Sprint(n) })
}

func (s *stored) port(port int32) int32 {
	if port < 30016 || port > 30199 {
		return port
	}
	var n int32
	if _, err := fmt.Sscan(s.token(fmt.Sprint(port), func(n int) string { return fmt.Sprint(40000 + n) }), &n); err != nil {
		panic(err)
	}
	return n
}

func (s *stored) token(value string, name func(int) string) string {
	if s.tokens[value] == "" {
		s.next++
		s.tokens[value] = name(s.next)
	}
	return s.tokens[value]
}

// forget drops the tokens of values that the service no longer has.
func (s *stored) forget(spec *corev1.ServiceSpec) {
	has := map[string]bool{fmt.Sprint(spec.HealthCheckNodePort): true}
	for _, ip := range spec.ClusterIPs {
		has[ip] = true
	}
	for _, p := range spec.Ports {
		has[fmt.Sprint(p.NodePort)] = true
	}
	for value := range s.tokens {
		if !has[value] {
			delete(s.tokens, value)
		}
	}
}

// replace puts tokens into a text.
func (s *stored) replace(text string) string {
	for value, token := range s.tokens {
		text = strings.ReplaceAll(text, value, token)
	}
	return text
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// randomSpec returns a spec as in a manifest. Requested addresses and ports are from the lower bands.
func randomSpec(r *rand.Rand) corev1.ServiceSpec {
	spec := corev1.ServiceSpec{Type: pick[corev1.ServiceType](r, "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")}
	if r.IntN(4) > 0 {
		spec.Selector = map[string]string{"a": "b"}
	}
	if spec.Type == corev1.ServiceTypeExternalName {
		spec.ExternalName = "example.com"
		return spec
	}
	for i := range 1 + r.IntN(3) {
		spec.Ports = append(spec.Ports, corev1.ServicePort{
			Name: fmt.Sprintf("p%d", i), Port: pick[int32](r, 80, 81, 53), Protocol: pick(r, corev1.ProtocolTCP, corev1.ProtocolUDP, ""),
		})
	}
	for range r.IntN(3) {
		change(r, &spec)
	}
	return spec
}

// change makes one of the usual changes to services.
func change(r *rand.Rand, spec *corev1.ServiceSpec) {
	switch r.IntN(12) {
	case 0:
		spec.ClusterIP = pick(r, "", "None", "10.96.0.3", "10.96.0.4", "fd00::3")
		spec.ClusterIPs = nil
	case 1:
		spec.ClusterIPs = pick(r, nil, []string{"10.96.0.3"}, []string{"10.96.0.4", "fd00::4"}, []string{"fd00::3", "10.96.0.3"})
		spec.ClusterIP = ""
		if len(spec.ClusterIPs) > 0 {
			spec.ClusterIP = spec.ClusterIPs[0]
		}
	case 2:
		spec.IPFamilyPolicy = new(pick(r, corev1.IPFamilyPolicySingleStack, corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack))
	case 3:
		spec.IPFamilies = pick(r, nil, []corev1.IPFamily{"IPv4"}, []corev1.IPFamily{"IPv6"}, []corev1.IPFamily{"IPv4", "IPv6"})
	case 4:
		spec.Type = pick[corev1.ServiceType](r, "ClusterIP", "NodePort", "LoadBalancer", "ExternalName")
		spec.ExternalName = pick(r, "", "example.com")
	case 5, 6:
		for i := range spec.Ports {
			spec.Ports[i].NodePort = pick[int32](r, 0, 0, 30001, 30002, 30003, 29999)
		}
	case 7:
		spec.ExternalTrafficPolicy = pick[corev1.ServiceExternalTrafficPolicy](r, "Local", "Cluster", "")
	case 8:
		spec.HealthCheckNodePort = pick[int32](r, 0, 30004, 30001)
	case 9:
		spec.AllocateLoadBalancerNodePorts = pick(r, nil, new(true), new(false))
	case 10:
		spec.Ports = slices.Clone(spec.Ports)
		if len(spec.Ports) > 1 && r.IntN(2) == 0 {
			spec.Ports = spec.Ports[1:]
		} else {
			spec.Ports = append(spec.Ports, corev1.ServicePort{Name: pick(r, "q", "r", "p0"), Port: pick[int32](r, 80, 53, 443), Protocol: "UDP"})
		}
	default:
		spec.SessionAffinity = pick[corev1.ServiceAffinity](r, "ClientIP", "None", "x")
	}
}
