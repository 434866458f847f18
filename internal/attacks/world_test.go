package attacks

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/keelson-dev/keelson/internal/clusterprocess"
	"github.com/keelson-dev/keelson/pki"
)

// canary is what no attacker may read. It stands in the secret vault/canary.
const canary = "c4n4ry-5ecret-of-the-vault"

// identity is how a client authenticates.
type identity struct {
	token       string
	certificate *tls.Certificate
}

// world is a cluster with something to protect, and people with few rights.
type world struct {
	t        *testing.T
	dir      string
	process  *clusterprocess.Process
	address  string
	roots    *x509.CertPool
	config   *rest.Config
	admin    kubernetes.Interface
	people   map[string]identity // anonymous, admin, mallory (no rights), and those of grants
	attempts atomic.Int64
}

// encodedCanary is the canary as JSON has it in a secret.
func encodedCanary() string { return base64.StdEncoding.EncodeToString([]byte(canary)) }

// patience bounds the wait for an answer, generously.
const patience = time.Minute

// grants are the rights of people in the namespace pub, and cluster-wide ones.
func grants() (local, cluster map[string][]rbacv1.PolicyRule) {
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resource, ","), Verbs: verbs}
	}
	const roles = "roles,rolebindings,clusterroles,clusterrolebindings"
	return map[string][]rbacv1.PolicyRule{
			"reader": {
				rule("", "pods,serviceaccounts,services,replicationcontrollers", "get"), rule("apps", "deployments", "get"), rule("", "configmaps", "list"),
			},
			"updater":  {rule("", "configmaps,pods,serviceaccounts", "update", "delete"), rule("apps", "deployments", "update")},
			"creator":  {rule("", "configmaps", "create")},
			"slowpoke": {rule("", "configmaps", "create")},
			"patcher":  {rule("", "configmaps", "patch")},
		}, map[string][]rbacv1.PolicyRule{
			"editor":       {rule("rbac.authorization.k8s.io", roles, "get", "list", "create", "update", "patch", "delete"), rule("", "configmaps", "get")},
			"impersonator": {{APIGroups: []string{""}, Resources: []string{"users"}, Verbs: []string{"impersonate"}, ResourceNames: []string{"reader"}}},
			"applicant":    {rule("certificates.k8s.io", "certificatesigningrequests", "create", "get")},
		}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if testing.Short() {
		t.Skip("it runs a cluster in a process of its own")
	}
	w := &world{t: t, dir: t.TempDir(), people: map[string]identity{"anonymous": {}}}
	local, cluster := grants()
	var people strings.Builder
	for name := range local {
		w.enroll(&people, name)
	}
	for name := range cluster {
		w.enroll(&people, name)
	}
	w.enroll(&people, "mallory")
	file := filepath.Join(w.dir, "people.csv")
	if err := os.WriteFile(file, []byte(people.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := clusterprocess.Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	w.process, err = program.Start(ctx, filepath.Join(w.dir, "data"), "--nodes", "2", "--token-auth-file", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.process.Interrupt(); err != nil {
			t.Errorf("%v\n%s", err, w.process.Output())
		}
	})
	w.connect()
	w.furnish(local, cluster)
	return w
}

// enroll gives somebody a token.
func (w *world) enroll(file *strings.Builder, name string) {
	w.people[name] = identity{token: "token-of-" + name}
	fmt.Fprintf(file, "token-of-%s,%s,uid-of-%s\n", name, name, name)
}

func (w *world) connect() {
	w.t.Helper()
	at, err := url.Parse(w.process.URL)
	w.check(err)
	w.address = at.Host
	w.config, err = w.process.Config()
	w.check(err)
	w.admin, err = kubernetes.NewForConfig(w.config)
	w.check(err)
	w.roots = x509.NewCertPool()
	w.roots.AppendCertsFromPEM(w.config.CAData)
	own, err := tls.X509KeyPair(w.config.CertData, w.config.KeyData)
	w.check(err)
	w.people["admin"] = identity{certificate: &own}
	authority, err := pki.Open(filepath.Join(w.dir, "data", "pki"), "")
	w.check(err)
	for _, node := range []string{"node-0", "node-1"} {
		w.people[node] = w.issue(authority, pki.Subject{Name: "system:node:" + node, Groups: []string{"system:nodes"}})
	}
}

// issue returns an identity with a certificate of an authority.
func (w *world) issue(a *pki.Authority, s pki.Subject) identity {
	w.t.Helper()
	pair, err := a.Issue(s, time.Hour)
	w.check(err)
	c, err := pair.TLS()
	w.check(err)
	return identity{certificate: &c}
}

func (w *world) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// furnish makes what is to be protected and the rights of people.
func (w *world) furnish(local, cluster map[string][]rbacv1.PolicyRule) {
	w.t.Helper()
	ctx := w.t.Context()
	for _, name := range []string{"vault", "pub"} {
		_, err := w.admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.check(err)
		_, err = w.admin.CoreV1().Secrets(name).Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "canary"}, StringData: map[string]string{"k": canary}}, metav1.CreateOptions{})
		w.check(err)
		_, err = w.admin.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "map"}, Data: map[string]string{"k": canary}}, metav1.CreateOptions{})
		w.check(err)
	}
	subject := func(user string) []rbacv1.Subject {
		return []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	}
	for user, rules := range local {
		_, err := w.admin.RbacV1().Roles("pub").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{})
		w.check(err)
		_, err = w.admin.RbacV1().RoleBindings("pub").Create(ctx, &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subject(user),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		}, metav1.CreateOptions{})
		w.check(err)
	}
	for user, rules := range cluster {
		_, err := w.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: rules}, metav1.CreateOptions{})
		w.check(err)
		_, err = w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subject(user),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
		}, metav1.CreateOptions{})
		w.check(err)
	}
	for i, name := range []string{"mine", "other"} { // mine runs on node-0
		_, err := w.admin.CoreV1().ServiceAccounts("pub").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		w.check(err)
		_, err = w.admin.CoreV1().Pods("pub").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{
				NodeName: fmt.Sprintf("node-%d", i), ServiceAccountName: name, Containers: []corev1.Container{{Name: "c", Image: "i"}},
			},
		}, metav1.CreateOptions{})
		w.check(err)
	}
	w.eventually("pods run", func() bool {
		pods, err := w.admin.CoreV1().Pods("pub").List(ctx, metav1.ListOptions{})
		return err == nil && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Status.Phase != corev1.PodRunning })
	})
}

func (w *world) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("%s: not so far", what)
		}
	}
}

// accountToken returns a token of a service account in pub, bound to nothing else.
func (w *world) accountToken(account string, spec authenticationv1.TokenRequestSpec) string {
	w.t.Helper()
	answer, err := w.admin.CoreV1().ServiceAccounts("pub").CreateToken(w.t.Context(), account, &authenticationv1.TokenRequest{Spec: spec}, metav1.CreateOptions{})
	w.check(err)
	return answer.Status.Token
}

// reply is what an attacker got. The status is 0 if the connection just ended.
type reply struct {
	status int
	body   string
}

// request writes a request of HTTP/1.1. What is not a header line of its own has none.
func request(who identity, method, target, body string, header ...string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "%s %s HTTP/1.1\r\nHost: cluster\r\nConnection: close\r\n", method, target)
	if who.token != "" {
		fmt.Fprintf(&s, "Authorization: Bearer %s\r\n", who.token)
	}
	for _, h := range header {
		s.WriteString(h + "\r\n")
	}
	if body != "" {
		fmt.Fprintf(&s, "Content-Length: %d\r\n", len(body))
	}
	return s.String() + "\r\n" + body
}

// dial opens a connection on which nothing has been sent.
func (w *world) dial(who identity, protocols ...string) (*tls.Conn, error) {
	c := &tls.Config{RootCAs: w.roots, ServerName: "127.0.0.1", MinVersion: tls.VersionTLS12, NextProtos: protocols}
	if who.certificate != nil {
		c.Certificates = []tls.Certificate{*who.certificate}
	}
	conn, err := (&tls.Dialer{Config: c}).DialContext(w.t.Context(), "tcp", w.address)
	if err != nil {
		return nil, err
	}
	return conn.(*tls.Conn), conn.SetDeadline(time.Now().Add(patience))
}

// send sends what it is given, byte for byte, and returns the first answer.
func (w *world) send(who identity, raw string) reply {
	w.t.Helper()
	conn, err := w.dial(who)
	if err != nil {
		return reply{}
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, raw) // a server that has answered need not read on
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return reply{}
	}
	defer func() { _ = answer.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<20))
	return reply{answer.StatusCode, string(body)}
}

// harmless fails the test if the answer tells the canary. The status may be any: a path may mean something else.
func (w *world) harmless(what string, who identity, raw string) reply {
	w.t.Helper()
	w.attempts.Add(1)
	got := w.send(who, raw)
	if strings.Contains(got.body, canary) || strings.Contains(got.body, encodedCanary()) {
		w.t.Errorf("%s: got through: %d %.300q", what, got.status, got.body)
	}
	return got
}

// refused fails the test unless the server refuses, by an answer that tells nothing or by ending the connection.
func (w *world) refused(what string, who identity, raw string) {
	w.t.Helper()
	if got := w.harmless(what, who, raw); got.status >= 100 && got.status < 400 || got.status >= 500 && got.status != 501 && got.status != 505 {
		w.t.Errorf("%s: not refused: %d %.300q", what, got.status, got.body)
	}
}

// forbidden fails the test unless the server says that this user may not do that, rather than that something else is wrong.
func (w *world) forbidden(what string, who identity, raw string) {
	w.t.Helper()
	if got := w.harmless(what, who, raw); got.status != 403 {
		w.t.Errorf("%s: not forbidden: %d %.300q", what, got.status, got.body)
	}
}

// works fails the test unless the server does it: what shows that a request like it is refused for the right reason.
func (w *world) works(what string, who identity, raw string) reply {
	w.t.Helper()
	got := w.send(who, raw)
	if got.status < 200 || got.status > 299 {
		w.t.Errorf("%s: %d %.300q", what, got.status, got.body)
	}
	return got
}

// settle waits for what the cluster does by itself after it has begun: nodes lose their first taints, pods get nodes.
func (w *world) settle() {
	w.t.Helper()
	w.eventually("the cluster is settled", func() bool {
		nodes, err := w.admin.CoreV1().Nodes().List(w.t.Context(), metav1.ListOptions{})
		w.check(err)
		pods, err := w.admin.CoreV1().Pods("").List(w.t.Context(), metav1.ListOptions{})
		w.check(err)
		return !slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return len(n.Spec.Taints) > 0 }) &&
			!slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
	})
}

// snapshot returns what the cluster is, without what changes by itself.
func (w *world) snapshot() map[string]string {
	w.t.Helper()
	client, err := dynamic.NewForConfig(w.config)
	w.check(err)
	all := map[string]string{}
	for _, r := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "namespaces"}, {Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "configmaps"},
		{Version: "v1", Resource: "pods"}, {Version: "v1", Resource: "serviceaccounts"}, {Version: "v1", Resource: "nodes"}, {Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		{Group: "storage.k8s.io", Version: "v1", Resource: "csinodes"}, {Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"},
		{Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations"},
	} {
		list, err := client.Resource(r).List(w.t.Context(), metav1.ListOptions{})
		w.check(err)
		for _, o := range list.Items {
			text, err := json.Marshal(still(o).Object)
			w.check(err)
			all[r.Resource+" "+o.GetNamespace()+"/"+o.GetName()] = string(text)
		}
	}
	return all
}

// still is an object without its status and versions.
func still(o unstructured.Unstructured) unstructured.Unstructured {
	unstructured.RemoveNestedField(o.Object, "status")
	unstructured.RemoveNestedField(o.Object, "metadata", "managedFields")
	unstructured.RemoveNestedField(o.Object, "metadata", "resourceVersion")
	return o
}

// unchanged fails the test if something was made, changed or removed since a snapshot.
func (w *world) unchanged(before map[string]string) {
	w.t.Helper()
	after := w.snapshot()
	for name, text := range after {
		if before[name] != text {
			w.t.Errorf("%s was %q and is %q", name, before[name], text)
		}
	}
	for name := range before {
		if _, ok := after[name]; !ok {
			w.t.Errorf("%s is gone", name)
		}
	}
}
