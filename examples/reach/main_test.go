package main

import (
	"bytes"
	"errors"
	"flag"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/keelson-dev/keelson/cluster"
)

// ask runs the program on the manifests.
func ask(t *testing.T, question string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	args := append([]string{"-f", "testdata/shop.yaml"}, strings.Fields(question)...)
	err := run(t.Context(), args, func(string) string { return "" }, &out)
	return out.String(), err
}

func TestAnswers(t *testing.T) {
	for question, want := range map[string]string{
		"shop/web shop/db sql": `shop/web to shop/db (10.64.0.2), 5432 (sql)/TCP: allowed
  leaving shop/web: allowed, as no policy isolates it
  arriving at shop/db: allowed by policy shop/db, rule 2 for ingress
    {"ports":[{"port":"sql"}],"from":[{"podSelector":{"matchLabels":{"app":"web"}}}]}
`,
		"guest shop/db 5432": `guest (10.64.1.9) to shop/db (10.64.0.2), 5432/TCP: denied
  leaving guest: allowed, as no policy isolates it
  arriving at shop/db: denied; no rule of these policies allows it: shop/db
guest (fd64::9) to shop/db (fd64::2), 5432/TCP: denied
  leaving guest: allowed, as no policy isolates it
  arriving at shop/db: denied; no rule of these policies allows it: shop/db
`,
		"shop/db 192.0.2.1 53/udp": `shop/db (10.64.0.2) to 192.0.2.1, 53/UDP: denied
  leaving shop/db: denied; no rule of these policies allows it: shop/db
  arriving at 192.0.2.1: allowed, as no policy isolates it
`,
		"192.0.2.7 10.64.0.2 22": `192.0.2.7 to shop/db (10.64.0.2), 22/TCP: allowed
  leaving 192.0.2.7: allowed, as no policy isolates it
  arriving at 10.64.0.2: allowed by policy shop/db, rule 1 for ingress
    {"from":[{"ipBlock":{"cidr":"192.0.2.0/24","except":["192.0.2.128/25"]}}]}
`,
		"guest guest 1/SCTP": `guest (10.64.1.9) to guest (10.64.1.9), 1/SCTP: allowed
  leaving guest: always allowed
  arriving at guest: always allowed
guest (fd64::9) to guest (fd64::9), 1/SCTP: allowed
  leaving guest: always allowed
  arriving at guest: always allowed
`,
	} {
		got, err := ask(t, question)
		if denied := strings.Contains(want, ": denied\n"); got != want || denied != errors.Is(err, errDenied) || !denied && err != nil {
			t.Errorf("%s: %v\n%s\nwant\n%s", question, err, got, want)
		}
	}
}

func TestMistakes(t *testing.T) {
	for question, want := range map[string]string{
		"guest shop/db":                "name who connects",
		"guest nobody 80":              "there is no pod default/nobody; there are shop/web, shop/db, default/guest, default/agent",
		"agent shop/db 80":             "pod agent is on the network of its node",
		"guest shop/web sql":           "shop/web has none of that name",
		"guest shop/db 70000":          "no number from 1 to 65535",
		"guest shop/db 80/ICMP":        "the protocol is TCP, UDP or SCTP",
		"shop/web 2001:db8::1 80":      "no addresses of the same family",
		"-x guest guest 80":            "--help lists the flags",
		"-f testdata/none.yaml a b 80": "testdata/none.yaml: no such file",
	} {
		if got, err := ask(t, question); err == nil || errors.Is(err, errDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %q; want %s", question, err, got, want)
		}
	}
	if out, err := ask(t, "--help"); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out, "Usage:") {
		t.Errorf("--help: %v, %q", err, out)
	}
}

// The same from a cluster.
func TestFromCluster(t *testing.T) {
	c, err := cluster.Start(t.Context(), cluster.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	api, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "deny"}}
	if _, err := api.NetworkingV1().NetworkPolicies("default").Create(t.Context(), policy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	found, err := fromCluster(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Policies) != 1 || len(found.Namespaces) < 4 {
		t.Fatalf("%d policies, %d namespaces", len(found.Policies), len(found.Namespaces))
	}
	found.Pods = append(found.Pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Status: corev1.PodStatus{PodIP: "10.64.0.1"}})
	var out bytes.Buffer
	if err := answer(found, "192.0.2.1", "web", "80", &out); !errors.Is(err, errDenied) || !strings.Contains(out.String(), "no rule of these policies allows it: default/deny") {
		t.Errorf("%v, %s", err, out.String())
	}
}
