package attacks

import (
	"encoding/json"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const rbacPath = "/apis/rbac.authorization.k8s.io/v1"

// write is a way to write an object.
type write struct{ name, method, kind, query string }

func writes() (all []write) {
	for _, query := range []string{"", "dryRun=All"} {
		all = append(all,
			write{"create", "POST", "application/json", query}, write{"update", "PUT", "application/json", query}, write{"merge patch", "PATCH", "application/merge-patch+json", query},
			write{"JSON patch", "PATCH", "application/json-patch+json", query}, write{"strategic patch", "PATCH", "application/strategic-merge-patch+json", query},
			write{"apply", "PATCH", "application/apply-patch+yaml", strings.Trim("fieldManager=m&force=true&"+query, "&")},
		)
	}
	return all
}

// object writes field of an object at path to value in this way. The object is there, except for what is created.
func (o write) object(who identity, path, kind, name, field string, value any) string {
	object := map[string]any{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": map[string]any{"name": name}, field: value}
	target := path + "/" + name
	switch o.kind {
	case "application/json-patch+json":
		return o.request(who, target, []any{map[string]any{"op": "add", "path": "/" + field, "value": value}})
	case "application/merge-patch+json", "application/strategic-merge-patch+json":
		return o.request(who, target, map[string]any{field: value})
	}
	if o.method == "POST" {
		object["metadata"], target = map[string]any{"name": "new-" + name}, path
	}
	if kind == "RoleBinding" || kind == "ClusterRoleBinding" {
		if _, ok := object["roleRef"]; !ok {
			object["roleRef"] = clusterRole(name)
		}
	}
	return o.request(who, target, object)
}

func (o write) request(who identity, target string, body any) string {
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // the tests' own
	}
	return request(who, o.method, target+"?"+o.query, string(text), "Content-Type: "+o.kind)
}

func clusterRole(name string) map[string]any {
	return map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
}

// escalation tries to get rights through the right to write roles and bindings.
func (w *world) escalation() {
	editor := w.people["editor"]
	cluster, local := rbacPath+"/clusterroles", rbacPath+"/namespaces/pub/roles"
	held := []any{map[string]any{"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"get"}}}
	for _, o := range writes() {
		if strings.Contains(o.query, "dryRun") { // as the world is to stay as it is
			w.works(o.name+" of a role with rights that the editor has", editor, o.object(editor, cluster, "ClusterRole", "base", "rules", held))
			w.works(o.name+" of a role with rights that the editor has", editor, o.object(editor, local, "Role", "base", "rules", held))
		}
		for name, rule := range greed() {
			w.forbidden(fmt.Sprint(o, " of a cluster role: ", name), editor, o.object(editor, cluster, "ClusterRole", "base", "rules", []any{rule}))
			w.forbidden(fmt.Sprint(o, " of a cluster role with more: ", name), editor, o.object(editor, cluster, "ClusterRole", "base", "rules", append(held[:1:1], rule)))
			w.forbidden(fmt.Sprint(o, " of a role: ", name), editor, o.object(editor, local, "Role", "base", "rules", []any{rule}))
		}
		selectors := map[string]any{"clusterRoleSelectors": []any{map[string]any{"matchLabels": map[string]any{"rbac.authorization.k8s.io/aggregate-to-admin": "true"}}}}
		w.forbidden(fmt.Sprint(o, " of an aggregation"), editor, o.object(editor, cluster, "ClusterRole", "base", "aggregationRule", selectors))
	}
	w.bindings(editor)
}

// bases makes objects that the editor may write, as long as they do not give more than the editor has.
func (w *world) bases() {
	ctx := w.t.Context()
	meta := metav1.ObjectMeta{Name: "base"}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}
	_, err := w.admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	w.check(err)
	_, err = w.admin.RbacV1().Roles("pub").Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	w.check(err)
	for _, name := range powers() {
		nobody := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "nobody-yet"}}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
		_, err = w.admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: nobody, RoleRef: ref}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) { // some are there
			w.check(err)
		}
		_, err = w.admin.RbacV1().RoleBindings("pub").Create(ctx, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: nobody, RoleRef: ref}, metav1.CreateOptions{})
		w.check(err)
	}
}

// powers are cluster roles with rights that the editor lacks.
func powers() []string { return []string{"cluster-admin", "admin", "edit", "system:node"} }

// greed are rules with rights that the editor lacks.
func greed() map[string]map[string]any {
	rule := func(group, resource, verb string) map[string]any {
		return map[string]any{"apiGroups": []string{group}, "resources": []string{resource}, "verbs": []string{verb}}
	}
	return map[string]map[string]any{
		"everything": rule("*", "*", "*"), "secrets": rule("", "secrets", "get"), "all verbs": rule("", "configmaps", "*"), "all resources": rule("", "*", "get"), "all groups": rule("*", "configmaps", "get"),
		"all subresources": rule("", "*/*", "get"), "a subresource": rule("", "configmaps/status", "get"), "exec": rule("", "pods/exec", "create"), "tokens": rule("", "serviceaccounts/token", "create"),
		"nodes": rule("", "nodes/proxy", "get"), "impersonate": rule("", "users", "impersonate"), "groups": rule("", "groups", "impersonate"), "escalate": rule("rbac.authorization.k8s.io", "clusterroles", "escalate"),
		"bind": rule("rbac.authorization.k8s.io", "clusterroles", "bind"), "approve": rule("certificates.k8s.io", "signers", "approve"), "another case": rule("", "configmaps", "GET"),
		"two verbs": {"apiGroups": []string{""}, "resources": []string{"configmaps"}, "verbs": []string{"get", "delete"}}, "two resources": {"apiGroups": []string{""}, "resources": []string{"configmaps", "secrets"}, "verbs": []string{"get"}},
	}
}

// bindings tries to bind oneself, or everybody, to rights.
func (w *world) bindings(editor identity) {
	cluster, local := rbacPath+"/clusterrolebindings", rbacPath+"/namespaces/pub/rolebindings"
	own := []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "editor"}}
	everybody := []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"}}
	account := []any{map[string]any{"kind": "ServiceAccount", "name": "mine", "namespace": "pub"}}
	for _, o := range writes() {
		for _, power := range powers() {
			for who, subjects := range map[string][]any{"the editor": own, "everybody": everybody, "an account": account} {
				w.forbidden(fmt.Sprint(o, ": cluster-wide, ", power, " to ", who), editor, o.object(editor, cluster, "ClusterRoleBinding", power, "subjects", subjects))
				w.forbidden(fmt.Sprint(o, ": ", power, " to ", who), editor, o.object(editor, local, "RoleBinding", power, "subjects", subjects))
			}
		}
		// A binding of little gets another role.
		for _, binding := range []string{"reader", "updater"} {
			w.refused(fmt.Sprint(o, ": another role for ", binding), editor, o.object(editor, local, "RoleBinding", binding, "roleRef", clusterRole("cluster-admin")))
		}
	}
	w.accounts()
}

// accounts tries to get certificates and tokens of others.
func (w *world) accounts() {
	applicant, editor := w.people["applicant"], w.people["editor"]
	for _, account := range []string{"pub/serviceaccounts/mine", "kube-system/serviceaccounts/default", "vault/serviceaccounts/default"} {
		for _, who := range []identity{applicant, editor, w.people["mallory"], w.people["reader"]} {
			body := `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`
			w.refused("token of "+account, who, request(who, "POST", "/api/v1/namespaces/"+account+"/token", body, "Content-Type: application/json"))
		}
	}
	for _, signer := range []string{"kubernetes.io/kube-apiserver-client", "kubernetes.io/kube-apiserver-client-kubelet", "kubernetes.io/kubelet-serving", "kubernetes.io/legacy-unknown"} {
		for _, sub := range []string{"approval", "status"} {
			target := "/apis/certificates.k8s.io/v1/certificatesigningrequests/x/" + sub
			w.refused("PUT "+target, applicant, request(applicant, "PUT", target, `{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{"name":"x"},"spec":{"signerName":"`+signer+`"}}`, "Content-Type: application/json"))
		}
	}
	masters := w.signingRequest("admin", "system:masters")
	w.refused("a certificate for system:masters", applicant, request(applicant, "POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", masters, "Content-Type: application/json"))
}
