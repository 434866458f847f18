package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/keelson-dev/keelson/admission/serviceaccount"
	"github.com/keelson-dev/keelson/client"
	"github.com/keelson-dev/keelson/client/message"
	"github.com/keelson-dev/keelson/client/rest"
	"github.com/keelson-dev/keelson/cluster"
	"github.com/keelson-dev/keelson/internal/testcluster"
)

// serve runs an API server over TLS whose administrator has a token. It returns a client and a home directory with a
// kubeconfig.
func serve(t *testing.T) (client.Client, string) {
	t.Helper()
	config, c := testcluster.Serve(t, cluster.Options{Components: []cluster.Component{}, Disable: []string{serviceaccount.Name}})
	in, err := rest.New(c.Config(), c.Scheme())
	if err != nil {
		t.Fatal(err)
	}
	return in, filepath.Dir(filepath.Dir(config))
}

// execute runs a command line and returns its output and the error message.
func execute(t *testing.T, home string, line ...string) (out, failure string) {
	t.Helper()
	var b bytes.Buffer
	err := run(t.Context(), append([]string{"/bin/run"}, line...), func(name string) string {
		return map[string]string{"HOME": home}[name]
	}, &b)
	return b.String(), message.Of(err)
}

func TestCreate(t *testing.T) {
	in, home := serve(t)
	for _, step := range []struct{ line, out, failure string }{
		{"create deployment nginx --image=nginx --replicas=3 --record", "deployment.apps/nginx created\n", ""},
		{"create deployment nginx --image=nginx", "", `Error from server (AlreadyExists): deployments.apps "nginx" already exists`},
		{"run web --image=nginx --port=80 --expose", "deployment.apps/web created\nservice/web created\n", ""},
		{"run web --image=nginx --port=80 --expose --generator=run-pod/v1", "pod/web created\n", `Error from server (AlreadyExists): services "web" already exists`},
		{"run once --image=busybox --restart=Never -n kube-system -o name -- date", "pod/once\n", ""},
		{"run dry --image=busybox --restart=Never --dry-run=server", "pod/dry created (server dry run)\n", ""},
		{"run dry --image=busybox --restart=Never --dry-run=server -o jsonpath={.spec.schedulerName}", "default-scheduler", ""},
		{"run there --image=nginx --namespace=none", "", `Error from server (NotFound): namespaces "none" not found`},
	} {
		if out, failure := execute(t, home, strings.Fields(step.line)...); out != step.out || failure != step.failure {
			t.Errorf("%s\nprints %q, want %q\nfails with %q, want %q", step.line, out, step.out, failure, step.failure)
		}
	}
	deployments := client.Target{Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Namespace: "default", Name: "nginx"}
	d, err := client.As[*appsv1.Deployment](in.Get(t.Context(), deployments))
	if err != nil {
		t.Fatal(err)
	}
	cause := "run create deployment nginx --image=nginx --replicas=3 --record"
	if *d.Spec.Replicas != 3 || d.Labels["app"] != "nginx" || d.Annotations["kubernetes.io/change-cause"] != cause {
		t.Errorf("stored: %v", d)
	}
	pods := client.Target{Resource: corev1.SchemeGroupVersion.WithResource("pods"), Namespace: "default", Name: "dry"}
	if _, err := in.Get(t.Context(), pods); !apierrors.IsNotFound(err) {
		t.Errorf("after a dry run: %v", err)
	}
	if _, err := os.Stat(filepath.Join(home, ".kube", "cache", "discovery")); err != nil {
		t.Errorf("the cache: %v", err)
	}
}

// Errors are reported before anything is sent: there is no server.
func TestRefusals(t *testing.T) {
	for line, want := range map[string]string{
		"run web --image=NGINX":                          `error: invalid image name "NGINX": invalid reference format`,
		"run Web --image=nginx":                          `error: invalid deployment name "Web": a lowercase RFC 1123 subdomain`,
		"run web":                                        "error: --image is required",
		"create deployment web":                          "error: --image is required",
		"run web --image=nginx --labels=a":               "error: unexpected label spec: a",
		"run web --image=nginx --port=x":                 `error: invalid argument "x" for "--port" flag`,
		"run web --image=nginx --frobnicate":             "error: unknown flag: --frobnicate",
		"run web --image=nginx --dry-run=maybe":          "error: invalid dry-run value (maybe): must be none, server or client",
		"run web --image=nginx --expose":                 "error: --port must be set when exposing a service",
		"run web --image=a --image=b":                    "error: run takes one --image",
		"run --image=nginx":                              "error: exactly one NAME is required, got 0",
		"create deployment a b --image=nginx":            "error: exactly one NAME is required, got 2",
		"create deployment a --image=nginx --expose":     "error: create deployment has no flag --expose; run has",
		"delete web":                                     "error: unknown command",
		"":                                               "error: unknown command",
		"run web --image=nginx -o wide":                  `error: unable to match a printer suitable for the output format "wide"`,
		"run web --image=nginx":                          "error: no API server is configured",
		"run web --image=nginx --kubeconfig=/no/where":   "error: kubeconfig /no/where does not exist",
		"run web --image=nginx --restart=OnFailure -r 3": "error: unknown shorthand flag: 'r'",
	} {
		if out, failure := execute(t, t.TempDir(), strings.Fields(line)...); out != "" || !strings.HasPrefix(failure, want) {
			t.Errorf("%s\nprints %q and fails with %q, want %q", line, out, failure, want)
		}
	}
}

func TestDryRunNeedsNoServer(t *testing.T) {
	out, failure := execute(t, t.TempDir(), "run", "web", "--image=nginx", "--port=80", "--expose", "--dry-run=client", "-n", "shop")
	if out != "deployment.apps/web created (dry run)\nservice/web created (dry run)\n" || failure != "" {
		t.Errorf("prints %q, fails with %q", out, failure)
	}
	out, failure = execute(t, t.TempDir(), "run", "sum", "--image=busybox", "--restart=OnFailure", "--dry-run=client", "-o=jsonpath={.kind} {.spec.template.spec.containers[0].args}", "--", "expr", "6")
	if out != `Job ["expr","6"]` || failure != "" {
		t.Errorf("prints %q, fails with %q", out, failure)
	}
}

func TestHelp(t *testing.T) {
	out, failure := execute(t, t.TempDir(), "--help")
	if failure != "error: pflag: help requested" || !strings.Contains(out, "run run nginx --image=nginx --port=80 --expose") || !strings.Contains(out, "--dry-run string") {
		t.Errorf("prints %q, fails with %q", out, failure)
	}
}
