package attacks

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// signingRequest is one for a client's certificate, in JSON.
func (w *world) signingRequest(name, group string) string {
	w.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	w.check(err)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name, Organization: []string{group}}}, key)
	w.check(err)
	text, err := json.Marshal(&certificatesv1.CertificateSigningRequest{
		TypeMeta: metav1.TypeMeta{APIVersion: "certificates.k8s.io/v1", Kind: "CertificateSigningRequest"}, ObjectMeta: metav1.ObjectMeta{Name: "x"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		},
	})
	w.check(err)
	return string(text)
}

// nodes uses the credentials of node-0 for what is not its own.
func (w *world) nodes() {
	const (
		pods, node, merge, plain = "/api/v1/namespaces/pub/pods", "/api/v1/nodes/", "application/merge-patch+json", "application/json"
		strategic                = "application/strategic-merge-patch+json"
	)
	mine := w.people["node-0"]
	w.works("its own pod", mine, request(mine, "GET", pods+"/mine", ""))
	w.works("its own node", mine, request(mine, "PATCH", node+"node-0/status?dryRun=All", `{"metadata":{"annotations":{"a":"b"}}}`, "Content-Type: "+merge))

	pod := func(change func(map[string]any)) string {
		o := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": "spy"}, "spec": map[string]any{
			"nodeName": "node-0", "containers": []any{map[string]any{"name": "c", "image": "i"}},
		}}
		change(o)
		text, err := json.Marshal(o)
		w.check(err)
		return string(text)
	}
	mirror := func(spec map[string]any) func(map[string]any) {
		return func(o map[string]any) {
			o["metadata"].(map[string]any)["annotations"] = map[string]any{"kubernetes.io/config.mirror": "x"}
			for k, v := range spec {
				o["spec"].(map[string]any)[k] = v
			}
		}
	}
	volume := func(source string) map[string]any {
		return map[string]any{"volumes": []any{map[string]any{"name": "v", source: map[string]any{"secretName": "canary", "name": "map", "claimName": "c"}}}}
	}
	token := `{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`
	for _, try := range [][4]string{
		{"GET", secret, "", ""}, {"GET", "/api/v1/namespaces/pub/secrets/canary", "", ""}, {"GET", "/api/v1/secrets", "", ""}, {"GET", "/api/v1/namespaces/pub/secrets", "", ""}, {"GET", "/api/v1/namespaces/pub/secrets?watch=true&timeoutSeconds=1", "", ""},
		{"GET", "/api/v1/namespaces/pub/configmaps/map", "", ""}, {"GET", "/api/v1/namespaces/pub/configmaps", "", ""}, {"GET", "/api/v1/namespaces/pub/secrets?fieldSelector=metadata.name%3Dcanary", "", ""},
		{"POST", pods, pod(func(map[string]any) {}), plain}, {"POST", pods, pod(mirror(map[string]any{"nodeName": "node-1"})), plain}, {"POST", pods, pod(mirror(volume("secret"))), plain},
		{"POST", pods, pod(mirror(volume("configMap"))), plain}, {"POST", pods, pod(mirror(volume("persistentVolumeClaim"))), plain}, {"POST", pods, pod(mirror(map[string]any{"serviceAccountName": "mine"})), plain}, {"POST", pods, pod(mirror(nil)), plain},
		{"PATCH", pods + "/other/status", `{"status":{"phase":"Failed"}}`, merge}, {"PATCH", pods + "/other", `{"metadata":{"labels":{"a":"b"}}}`, merge}, {"PATCH", pods + "/mine", `{"metadata":{"labels":{"a":"b"}}}`, merge}, {"PATCH", pods + "/mine/status", `{"metadata":{"labels":{"a":"b"}}}`, merge},
		{"DELETE", pods + "/other", "", ""}, {"DELETE", pods, "", ""}, {"DELETE", pods + "?fieldSelector=spec.nodeName%3Dnode-0", "", ""}, {"POST", pods + "/other/eviction", `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"other"}}`, plain},
		{"POST", pods + "/mine/binding", `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"mine"},"target":{"kind":"Node","name":"node-0"}}`, plain}, {"POST", pods + "/mine/exec?command=id", "", ""}, {"GET", pods + "/other/log", "", ""},
		{"PATCH", node + "node-1", `{"metadata":{"labels":{"a":"b"}}}`, merge}, {"PATCH", node + "node-1/status", `{"status":{"capacity":{"cpu":"1"}}}`, merge}, {"DELETE", node + "node-1", "", ""}, {"DELETE", node + "node-0", "", ""}, {"DELETE", node, "", ""},
		{"PATCH", node + "node-0", `{"spec":{"taints":[{"key":"k","effect":"NoSchedule"}]}}`, strategic}, {"PATCH", node + "node-0", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`, merge},
		{"PATCH", node + "node-0", `{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`, merge}, {"PATCH", node + "node-0", `{"metadata":{"labels":{"kubernetes.io/x":"y"}}}`, merge}, {"PATCH", node + "node-0/status", `{"metadata":{"labels":{"node-restriction.kubernetes.io/x":"y"}}}`, merge},
		{"PATCH", node + "node-0", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"node-1","uid":"x"}]}}`, merge}, {"PATCH", node + "node-0", `{"spec":{"configSource":{"configMap":{"name":"m","namespace":"n","kubeletConfigKey":"k"}}}}`, merge}, {"GET", node + "node-1/proxy/pods", "", ""},
		{"POST", node, `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-2"}}`, plain}, {"POST", "/api/v1/namespaces/pub/serviceaccounts/other/token", token, plain}, {"POST", "/api/v1/namespaces/pub/serviceaccounts/mine/token", token, plain},
		{"POST", "/api/v1/namespaces/pub/serviceaccounts/mine/token", strings.Replace(token, "{}", `{"boundObjectRef":{"apiVersion":"v1","kind":"Pod","name":"mine","uid":"wrong"}}`, 1), plain}, {"POST", "/api/v1/namespaces/kube-system/serviceaccounts/default/token", token, plain},
		{"PATCH", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1", `{"spec":{"holderIdentity":"node-0"}}`, merge}, {"DELETE", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/node-1", "", ""},
		{"POST", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"node-9"}}`, plain}, {"POST", "/apis/coordination.k8s.io/v1/namespaces/pub/leases", `{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"node-0"}}`, plain},
		{"POST", "/apis/storage.k8s.io/v1/csinodes", `{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":"node-1"},"spec":{"drivers":[]}}`, plain}, {"DELETE", "/apis/storage.k8s.io/v1/csinodes/node-1", "", ""},
		{"POST", "/apis/resource.k8s.io/v1/resourceslices", `{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{"name":"s"},"spec":{"nodeName":"node-1","driver":"d.example.com","pool":{"name":"p","generation":1,"resourceSliceCount":1}}}`, plain},
		{"POST", rbacPath + "/clusterrolebindings", `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding","metadata":{"name":"n"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"cluster-admin"}}`, plain},
		{"POST", "/apis/certificates.k8s.io/v1/certificatesigningrequests", w.signingRequest("system:node:node-1", "system:masters"), plain}, {"GET", rbacPath + "/clusterroles", "", ""}, {"POST", "/api/v1/namespaces", `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}`, plain},
		{"PATCH", "/api/v1/namespaces/pub", `{"metadata":{"labels":{"a":"b"}}}`, merge}, {"DELETE", "/api/v1/namespaces/pub/serviceaccounts/mine", "", ""}, {"PATCH", "/api/v1/namespaces/pub/services/s", `{}`, merge}, {"POST", "/api/v1/namespaces/pub/configmaps", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"n"}}`, plain},
	} {
		header := []string{}
		if try[3] != "" {
			header = append(header, "Content-Type: "+try[3])
		}
		w.refused("node-0 "+try[0]+" "+try[1]+" "+try[2], mine, request(mine, try[0], try[1], try[2], header...))
		// A node that is not there, and one whose group is missing, may no more.
		for who, id := range map[string]identity{"mallory": w.people["mallory"], "anonymous": {}} {
			w.refused(who+" "+try[0]+" "+try[1], id, request(id, try[0], try[1], try[2], header...))
		}
	}
}
