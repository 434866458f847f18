package main

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
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

const noView = "warning: clusterrole.rbac.authorization.k8s.io \"view\" not found\n"

func TestAnswers(t *testing.T) {
	for question, want := range map[string]string{
		"who-can delete pods -n shop": noView + `may delete pods in namespace shop:
  Group system:masters
  User ann
`,
		"who-can delete pods": noView + `may delete pods:
  Group system:masters
`,
		"-n shop who-can patch deployments web": noView + `may patch deployments.apps web in namespace shop:
  Group system:masters
  ServiceAccount shop/deployer
`,
		"-n shop who-can update carts.shop.example.com/status": noView + `may update carts.shop.example.com/status in namespace shop:
  Group system:masters
  User ann
`,
		"-n shop who-can update carts/status.shop.example.com": noView + `may update carts.shop.example.com/status in namespace shop:
  Group system:masters
  User ann
`,
		"who-can get /metrics/slis --defaults": `may get /metrics/slis:
  Group system:masters
  Group support
  Group system:monitoring
`,
		"explain ann delete pods x -n shop": `ann, of system:authenticated, to delete pods x in namespace shop: allowed
  RoleBinding "administration/shop" of ClusterRole "shop-admin" by User "ann": allows by {APIGroups:[""], Resources:["pods"], Verbs:["delete"]}
`,
		"explain system:serviceaccount:shop:deployer get pods/log -n shop": `system:serviceaccount:shop:deployer, of system:serviceaccounts, system:serviceaccounts:shop, system:authenticated, to get pods/log in namespace shop: allowed
  RoleBinding "deployer/shop" of Role "deployer" by ServiceAccount "deployer": allows by {APIGroups:[""], Resources:["pods/log"], Verbs:["get"]}
`,
		"explain ann get deployments.apps db -n shop": `ann, of system:authenticated, to get deployments.apps db in namespace shop: not allowed
  RoleBinding "administration/shop" of ClusterRole "shop-admin" by User "ann": no rule allows it
these roles allow it, and are not bound to the user there: Role deployer
`,
		"explain ann delete pods": `ann, of system:authenticated, to delete pods: not allowed: no binding applies to the user
these roles allow it, and are not bound to the user there: ClusterRole carts, ClusterRole shop-admin
`,
		"explain bob * * ": `bob, of system:authenticated, to * *: not allowed: no binding applies to the user
no role allows it
`,
		"explain bob --group support get pods": `bob, of support, system:authenticated, to get pods: not allowed
  ClusterRoleBinding "probes" of ClusterRole "probes" by Group "support": no rule allows it
  ClusterRoleBinding "support" of ClusterRole "view" by Group "support": clusterrole.rbac.authorization.k8s.io "view" not found
no role allows it
`,
		"explain root --group system:masters get pods": `root, of system:masters, system:authenticated, to get pods: allowed, as everything is to members of system:masters
`,
		"rules-for system:anonymous": noUser("system:anonymous, of system:unauthenticated") + "  nothing\n",
		"rules-for system:node:n1":   noUser("system:node:n1, of system:nodes, system:authenticated") + "  nothing\n",
		"rules-for root --group system:masters -n x": `root, of system:masters, system:authenticated, may in namespace x:
  everything, as members of system:masters
`,
		"rules-for ann --group support -n shop": noView + `ann, of support, system:authenticated, may in namespace shop:
  get     /healthz, /metrics/*
  *       carts.shop.example.com, carts.shop.example.com/status
  delete  pods
`,
		"rules-for system:serviceaccount:shop:deployer --namespace shop": `system:serviceaccount:shop:deployer, of system:serviceaccounts, system:serviceaccounts:shop, system:authenticated, may in namespace shop:
  get, list, watch  deployments.apps
  update, patch     deployments.apps, named web
  get               pods/log
`,
	} {
		got, err := ask(t, question)
		if denied := strings.Contains(want, ": not allowed"); got != want || denied != errors.Is(err, errDenied) || !denied && err != nil {
			t.Errorf("%s: %v\n%s\nwant\n%s", question, err, got, want)
		}
	}
}

func noUser(who string) string { return who + ", may in no namespace and in all:\n" }

func TestMistakes(t *testing.T) {
	for question, want := range map[string]string{
		"":                                   "ask who-can, explain or rules-for",
		"who-may get pods":                   `cannot answer "who-may get pods"; ask who-can`,
		"who-can get":                        "cannot answer",
		"who-can get pods a b":               "cannot answer",
		"explain ann get":                    "cannot answer",
		"explain ann get pods a b":           "cannot answer",
		"rules-for":                          "cannot answer",
		"who-can get pod":                    "pod is no resource of Kubernetes",
		"who-can get carts":                  "carts is no resource of Kubernetes: write it in the plural, and one that is defined by others as RESOURCE.GROUP",
		"who-can get /metrics x":             "which has neither a name nor a namespace",
		"who-can get /metrics -n x":          "which has neither a name nor a namespace",
		"-x who-can get pods":                "--help lists the flags",
		"-f testdata/none.yaml rules-for me": "testdata/none.yaml: no such file",
	} {
		if got, err := ask(t, question); err == nil || errors.Is(err, errDenied) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %q; want %s", question, err, got, want)
		}
	}
	if out, err := ask(t, "--help"); !errors.Is(err, flag.ErrHelp) || !strings.Contains(out, "Usage:") {
		t.Errorf("--help: %v, %q", err, out)
	}
	if _, err := parse([]string{"--defaults", "rules-for", "me"}, os.Getenv); err == nil || !strings.Contains(err.Error(), "--defaults is for files") {
		t.Error(err)
	}
}

// TestGroups: resources are found in their groups, and those of several in the core group.
func TestGroups(t *testing.T) {
	for resource, want := range map[string]string{
		"pods": "", "events": "", "deployments": "apps", "ingresses": "networking.k8s.io", "networkpolicies": "networking.k8s.io", "jobs": "batch",
		"endpoints": "", "clusterroles": "rbac.authorization.k8s.io", "selfsubjectaccessreviews": "authorization.k8s.io", "leases": "coordination.k8s.io", "users": "", "*": "*",
	} {
		if got, err := groupOf(resource); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", resource, got, err, want)
		}
	}
}

// TestBadFiles: files that cannot be read as what they say they are.
func TestBadFiles(t *testing.T) {
	for text, want := range map[string]string{
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nrules: x\n": "cannot unmarshal string",
		"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: r}\naggregationRule: {clusterRoleSelectors: [{matchExpressions: [{key: a, operator: Odd}]}]}\n": "ClusterRole r",
	} {
		file := filepath.Join(t.TempDir(), "x.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := fromFiles([]string{file}, false); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestLists: lists of one kind, as kubectl's raw output, and what has no namespace.
func TestLists(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	var documents []string
	for _, kind := range []string{"Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"} {
		documents = append(documents, "apiVersion: rbac.authorization.k8s.io/v1\nkind: "+kind+"List\nitems: [{metadata: {name: r, namespace: a}}]\n")
	}
	for _, kind := range []string{"Role", "RoleBinding"} {
		documents = append(documents, "apiVersion: rbac.authorization.k8s.io/v1\nkind: "+kind+"\nmetadata: {name: own}\n")
	}
	text := strings.Join(documents, "---\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := fromFiles([]string{file}, false)
	if err != nil || len(p.Roles) != 2 || len(p.RoleBindings) != 2 || len(p.ClusterRoles) != 1 || len(p.ClusterRoleBindings) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if p.Roles[0].Namespace != "a" || p.Roles[1].Namespace != "default" || p.RoleBindings[1].Namespace != "default" {
		t.Errorf("%+v", p)
	}
}

// TestFromCluster: the same from a cluster.
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
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "ann"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "ann"}},
	}
	if _, err := api.RbacV1().RoleBindings("default").Create(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	policy, err := fromCluster(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	for question, want := range map[string]string{
		"explain ann get pods -n default":    "to get pods in namespace default: allowed\n",
		"explain ann delete pods -n default": "ClusterRole admin, ClusterRole cluster-admin, ClusterRole edit",
		"who-can list pods -n default":       "\n  User ann\n",
		"rules-for ann -n default":           "get, list, watch  ",
		"who-can get roles -n kube-system":   "\n  Group system:masters\n",
	} {
		s, err := parse(strings.Fields(question), func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		answer, err := questionOf(s)
		if err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := answer(t.Context(), policy, &out); err != nil && !errors.Is(err, errDenied) || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v\n%s", question, err, out.String())
		}
	}
}
