package etcd_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/keelson-dev/keelson/internal/etcdtest"
)

// TestInTurn lets the two serve one etcd in turn: each finds what the other left, and continues with it.
func TestInTurn(t *testing.T) {
	set := newSettings(t, etcdtest.Start(t, etcdtest.Options{}).Endpoint(0))
	kinds := kinds(t)
	all := objects(t, kinds)

	upstream := startUpstream(t, set)
	for _, o := range all {
		upstream.create(t, o)
	}
	foreign(t, upstream)
	if t.Failed() {
		t.FailNow()
	}
	was, exact := upstream.look(t, kinds), upstream.exact(t, kinds)
	upstream.stop(t)
	before := dump(t, set.etcd)
	strangers := strangers(before, kinds)

	keelson := startKeelson(t, set)
	same := compare(t, "made by upstream, read by keelson", was, keelson.look(t, kinds))
	t.Logf("%d objects of %d kinds: %d answers are the same", len(all), len(kinds), same)
	untouched(t, before, dump(t, set.etcd))
	exact.compare(t, keelson)
	all = keelson.change(t, all, 1)
	was = keelson.look(t, kinds)
	keelson.stop(t)
	untouched(t, strangers, dump(t, set.etcd))
	before = dump(t, set.etcd)

	upstream = startUpstream(t, set)
	same = compare(t, "changed by keelson, read by upstream", was, upstream.look(t, kinds))
	t.Logf("changed by keelson: %d answers are the same", same)
	untouched(t, before, dump(t, set.etcd))
	all = upstream.change(t, all, 2)
	was = upstream.look(t, kinds)
	upstream.stop(t)
	before = dump(t, set.etcd)

	keelson = startKeelson(t, set)
	same = compare(t, "changed by upstream, read by keelson", was, keelson.look(t, kinds))
	t.Logf("changed by upstream: %d answers are the same", same)
	untouched(t, before, dump(t, set.etcd))
	for _, o := range all {
		code, _ := keelson.do(t, http.MethodGet, o.path(), "", nil)
		if gone := o.n == 1 || o.n == 2; gone != (code == http.StatusNotFound) {
			t.Errorf("%s: %d", o.path(), code)
		}
	}
}

// foreign creates objects of kinds that keelson does not have.
func foreign(t *testing.T, s *server) {
	t.Helper()
	data, err := os.ReadFile("testdata/foreign.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for doc := range bytes.SplitSeq(data, []byte("\n---\n")) {
		var request struct {
			Path string
			Body map[string]any
		}
		if err := yaml.Unmarshal(doc, &request); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() string { // a definition takes effect after a while
			if code, data := s.do(t, http.MethodPost, request.Path, asJSON, encode(t, request.Body)); code != http.StatusCreated {
				return fmt.Sprintf("%s: %d %s", request.Path, code, data)
			}
			return ""
		})
	}
}

// strangers are the stored objects of kinds that keelson does not have.
func strangers(all map[string]record, kinds []kind) map[string]record {
	out := maps.Clone(all)
	maps.DeleteFunc(out, func(key string, _ record) bool {
		return strings.HasPrefix(key, "/registry/ranges/") || slices.ContainsFunc(kinds, func(k kind) bool {
			return strings.HasPrefix(key, "/registry/"+k.Prefix+"/")
		})
	})
	return out
}

// exacts are lists at one revision, by path.
type exacts map[string][]byte

// exact lists all kinds at the current revision.
func (s *server) exact(t *testing.T, kinds []kind) exacts {
	t.Helper()
	out := exacts{}
	now := text(decode(t, s.get(t, "/api/v1/namespaces")), "metadata", "resourceVersion")
	for _, k := range kinds {
		for _, more := range []string{"", "&limit=2"} {
			path := k.collection("") + "?resourceVersionMatch=Exact&resourceVersion=" + now + more
			out[path] = s.get(t, path)
			if next := text(decode(t, out[path]), "metadata", "continue"); next != "" {
				path = k.collection("") + "?limit=2&continue=" + next
				out[path] = s.get(t, path)
			}
		}
	}
	return out
}

// compare reads the same lists through another server. It reads the pages after the first with the other server's
// token.
func (e exacts) compare(t *testing.T, s *server) {
	t.Helper()
	for path, want := range e {
		code, got := s.do(t, http.MethodGet, path, "", nil)
		if code == http.StatusGone {
			t.Errorf("%s: %s: %s", s.name, path, got)
			continue
		}
		// Tokens refer to the same position but look different.
		want, got = bytes.Replace(want, token(t, want), nil, 1), bytes.Replace(got, token(t, got), nil, 1)
		if !bytes.Equal(want, got) {
			t.Errorf("%s:\nwas %s\nis  %s", path, differing(want, got), differing(got, want))
		}
	}
}

func token(t *testing.T, list []byte) []byte {
	t.Helper()
	return []byte(text(decode(t, list), "metadata", "continue"))
}

// untouched checks that a server's start left unchanged what it found.
func untouched(t *testing.T, before, after map[string]record) {
	t.Helper()
	for key, was := range before {
		is, ok := after[key]
		switch {
		case ownKey(key):
		case !ok:
			t.Errorf("%s was deleted", key)
		case is.revision != was.revision:
			t.Errorf("%s was written: %q, then %q", key, was.value, is.value)
		}
	}
}

// ownKey is own for etcd keys.
func ownKey(key string) bool {
	for _, prefix := range []string{
		"/registry/masterleases/", "/registry/services/endpoints/default/kubernetes", "/registry/endpointslices/default/kubernetes",
		"/registry/leases/kube-system/apiserver-", "/registry/configmaps/kube-system/kube-apiserver-legacy-service-account-token-tracking",
		"/registry/configmaps/kube-system/extension-apiserver-authentication",
	} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// change changes every object through a server. Copy 1 is deleted in the first turn; copy 2 is deleted in the first and
// finalized in the second; a new copy is created in each turn.
func (s *server) change(t *testing.T, all []object, turn int) []object {
	t.Helper()
	var created []object
	for _, o := range all {
		switch {
		case o.n == 0:
			s.modify(t, o, turn)
			if body := copyOf(t, o.kind, o.body, 2+turn); body != nil {
				created = append(created, object{o.kind, body, 2 + turn})
				s.create(t, created[len(created)-1])
			}
		case o.Plural == "namespaces":
			s.endNamespace(t, o, turn)
		case o.n == 1 && turn == 1:
			s.patch(t, o, "", asMerge, `{"metadata":{"finalizers":null}}`)
			s.remove(t, o)
		case o.n == 2 && turn == 1:
			s.patch(t, o, "", asMerge, `{"metadata":{"finalizers":["example.com/turn"]}}`)
			s.remove(t, o)
			if text(decode(t, s.get(t, o.path())), "metadata", "deletionTimestamp") == "" {
				t.Errorf("%s: %s is not being deleted", s.name, o.path())
			}
		case o.n == 2 && turn == 2:
			s.patch(t, o, "", asMerge, `{"metadata":{"finalizers":null}}`)
		case o.n == 3 && turn == 2:
			s.modify(t, o, turn)
		}
	}
	return slices.Concat(all, created)
}

// endNamespace deletes a namespace in the first turn, and finalizes it in the second.
func (s *server) endNamespace(t *testing.T, o object, turn int) {
	t.Helper()
	switch {
	case o.n > 2:
	case turn == 1:
		s.patch(t, o, "", asMerge, `{"metadata":{"finalizers":null}}`)
		s.must(t, http.MethodDelete, o.path(), "", nil)
	}
	if o.n != 1 && !(o.n == 2 && turn == 2) {
		return
	}
	if turn == 2 && o.n == 1 {
		return // it is gone
	}
	have := decode(t, s.get(t, o.path()))
	have["spec"] = map[string]any{}
	s.must(t, http.MethodPut, o.path()+"/finalize", asJSON, encode(t, have))
}

func (s *server) patch(t *testing.T, o object, sub, contentType, body string) {
	t.Helper()
	if code, data := s.do(t, http.MethodPatch, o.path()+sub, contentType, []byte(body)); code != http.StatusOK {
		t.Errorf("%s: %s %s: %d %s\nsent %s", s.name, contentType, o.path()+sub, code, data, body)
	}
}

func (s *server) remove(t *testing.T, o object) {
	t.Helper()
	// By default, what belongs to some is orphaned, which takes the garbage collector.
	if code, data := s.do(t, http.MethodDelete, o.path()+"?gracePeriodSeconds=0&propagationPolicy=Background", "", nil); code != http.StatusOK {
		t.Errorf("%s: delete %s: %d %s", s.name, o.path(), code, data)
	}
}

// modify changes an object in all possible ways.
func (s *server) modify(t *testing.T, o object, turn int) {
	t.Helper()
	by := fmt.Sprint(turn)
	s.patch(t, o, "", asMerge, `{"metadata":{"labels":{"merged":"`+by+`"}}}`)
	s.patch(t, o, "", "application/strategic-merge-patch+json", `{"metadata":{"annotations":{"strategic":"`+by+`"}}}`)
	s.patch(t, o, "", "application/json-patch+json", `[{"op":"add","path":"/metadata/labels/patched","value":"`+by+`"}]`)
	s.patch(t, o, "?fieldManager=applier&force=true", asApply, `{"apiVersion":"`+o.gvk.GroupVersion().String()+`","kind":"`+o.gvk.Kind+
		`","metadata":{"name":"`+text(o.body, "metadata", "name")+`","labels":{"applied":"`+by+`"}}}`)
	have := decode(t, s.get(t, o.path()))
	annotations, ok := field(have, "metadata", "annotations").(map[string]any)
	if !ok {
		t.Fatalf("%s has no annotations", o.path())
	}
	annotations["put"] = by
	s.must(t, http.MethodPut, o.path(), asJSON, encode(t, have))
	if p := specPatches(by)[o.gvk.Kind+"/"+text(o.body, "metadata", "name")]; p != "" {
		s.patch(t, o, "", asMerge, p)
	}
	if p := statusPatches(by)[o.gvk.Kind]; p != "" && o.status {
		s.patch(t, o, "/status", asMerge, p)
	}
}

// specPatches change more than metadata.
func specPatches(by string) map[string]string {
	return map[string]string{
		"Node/node1":              `{"spec":{"unschedulable":false,"taints":[{"key":"turn","value":"` + by + `","effect":"NoSchedule"}]}}`,
		"ConfigMap/cm":            `{"data":{"turn":"` + by + `"},"binaryData":null}`,
		"Secret/s":                `{"stringData":{"turn":"` + by + `"}}`,
		"ServiceAccount/rich":     `{"secrets":[{"name":"turn` + by + `"}]}`,
		"Pod/rich":                `{"spec":{"activeDeadlineSeconds":` + map[string]string{"1": "500", "2": "400"}[by] + `}}`,
		"Pod/small":               `{"spec":{"schedulingGates":null,"containers":[{"name":"c","image":"busybox:` + by + `"}]}}`,
		"PodTemplate/pt":          `{"template":{"spec":{"containers":[{"name":"c","image":"i:` + by + `"}]}}}`,
		"Service/plain":           `{"spec":{"type":"NodePort","ports":[{"name":"turn","port":8` + by + `}]}}`,
		"Service/outside":         `{"spec":{"type":"ClusterIP","externalName":null,"ports":[{"port":8` + by + `}]}}`,
		"Endpoints/manual":        `{"subsets":[{"addresses":[{"ip":"10.1.0.` + by + `"}],"ports":[{"port":80}]}]}`,
		"Event/old":               `{"count":1` + by + `}`,
		"Event/new":               `{"series":{"count":1` + by + `,"lastObservedTime":"2026-01-01T00:00:00.00000` + by + `Z"}}`,
		"Deployment/d":            `{"spec":{"replicas":` + by + `,"strategy":{"rollingUpdate":{"maxSurge":` + by + `}}}}`,
		"DaemonSet/ds":            `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"i:` + by + `"}]}}}}`,
		"ReplicaSet/rs":           `{"spec":{"replicas":` + by + `}}`,
		"ControllerRevision/cr":   `{"revision":1` + by + `}`,
		"EndpointSlice/slice":     `{"ports":[{"name":"turn","port":8` + by + `}]}`,
		"Lease/lease":             `{"spec":{"holderIdentity":"` + by + `","renewTime":"2026-01-01T00:00:00.00000` + by + `Z"}}`,
		"PodDisruptionBudget/pdb": `{"spec":{"minAvailable":` + by + `}}`,
		"PriorityClass/high":      `{"description":"` + by + `"}`,
		"Ingress/ing":             `{"spec":{"rules":null}}`,
		"IngressClass/ic":         `{"metadata":{"annotations":{"ingressclass.kubernetes.io/is-default-class":"true"}}}`,
		"NetworkPolicy/np":        `{"spec":{"egress":[{}],"ingress":null}}`,
		"Role/role":               `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"],"resourceNames":["` + by + `"]}]}`,
		"RoleBinding/rb":          `{"subjects":[{"kind":"User","name":"` + by + `"}]}`,
		"ClusterRole/cr":          `{"rules":null}`,
		"ClusterRoleBinding/crb":  `{"subjects":null}`,
		"PodDisruptionBudget/all": `{"spec":{"selector":{"matchLabels":{"turn":"` + by + `"}}}}`,

		"ReplicationController/rc": `{"spec":{"replicas":` + by + `}}`,
	}
}

// statusPatches change the status.
func statusPatches(by string) map[string]string {
	condition := `{"type":"Turn","status":"True","reason":"R","message":"` + by + `","lastTransitionTime":"2026-01-02T03:04:0` + by + `Z"}`
	return map[string]string{
		"Node":                `{"status":{"capacity":{"cpu":"` + by + `"},"conditions":[` + condition + `]}}`,
		"Pod":                 `{"status":{"message":"` + by + `","podIPs":[{"ip":"10.1.0.` + by + `"}],"podIP":"10.1.0.` + by + `"}}`,
		"Namespace":           `{"status":{"conditions":[` + condition + `]}}`,
		"Service":             `{"status":{"conditions":[` + condition + `]}}`,
		"Deployment":          `{"status":{"replicas":` + by + `,"readyReplicas":0,"updatedReplicas":0,"availableReplicas":0,"conditions":[` + condition + `]}}`,
		"DaemonSet":           `{"status":{"numberReady":` + by + `,"conditions":[` + condition + `]}}`,
		"ReplicaSet":          `{"status":{"replicas":` + by + `,"fullyLabeledReplicas":0,"readyReplicas":0,"availableReplicas":0,"conditions":[` + condition + `]}}`,
		"PodDisruptionBudget": `{"status":{"disruptionsAllowed":` + by + `,"conditions":[` + condition + `]}}`,
		"Ingress":             `{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.` + by + `"}]}}}`,
		"ServiceCIDR":         `{"status":{"conditions":[` + condition + `]}}`,

		"ReplicationController": `{"status":{"replicas":` + by + `,"fullyLabeledReplicas":0,"readyReplicas":0,"availableReplicas":0,"conditions":[` + condition + `]}}`,
	}
}
