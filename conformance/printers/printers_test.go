package printers_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/flowcontrol/install" // which the printers leave out, as the next three
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/node/install"
	_ "k8s.io/kubernetes/pkg/apis/storagemigration/install"
	"k8s.io/kubernetes/pkg/printers"
	printersinternal "k8s.io/kubernetes/pkg/printers/internalversion"
	"sigs.k8s.io/yaml"
)

var (
	record = flag.Bool("record", false, "write the cases that keelson's own tests hold")
	rounds = flag.Int("rounds", 2000, "how many random objects of every kind")
	seed   = flag.Uint64("seed", 1, "of the random objects")
)

// kept is how many random objects of every kind are recorded.
const kept = 12

// root is the directory of keelson's module, and cases that of its tests' cases.
const (
	root  = "../.."
	tests = "registry/registrytest"
	cases = tests + "/testdata/tables"
)

// table is upstream's output for objects of a kind.
type table struct {
	Now         time.Time                      `json:"now"`
	Definitions []metav1.TableColumnDefinition `json:"definitions"`
	Rows        []row                          `json:"rows"`
}

type row struct {
	Object     json.RawMessage            `json:"object"`
	Cells      []any                      `json:"cells"`
	Conditions []metav1.TableRowCondition `json:"conditions,omitempty"`
}

// kinds are those that keelson serves, by resource. Its tests fail if one is missing here.
func kinds() map[schema.GroupResource]schema.GroupVersionKind {
	out := map[schema.GroupResource]schema.GroupVersionKind{}
	for group, resources := range map[string]string{
		"/v1": "componentstatuses=ComponentStatus configmaps=ConfigMap endpoints=Endpoints events=Event limitranges=LimitRange namespaces=Namespace nodes=Node " +
			"persistentvolumeclaims=PersistentVolumeClaim persistentvolumes=PersistentVolume pods=Pod podtemplates=PodTemplate " +
			"replicationcontrollers=ReplicationController resourcequotas=ResourceQuota secrets=Secret serviceaccounts=ServiceAccount services=Service",
		"apps/v1": "controllerrevisions=ControllerRevision daemonsets=DaemonSet deployments=Deployment replicasets=ReplicaSet " +
			"statefulsets=StatefulSet",
		"autoscaling/v2":                  "horizontalpodautoscalers=HorizontalPodAutoscaler",
		"batch/v1":                        "cronjobs=CronJob jobs=Job",
		"certificates.k8s.io/v1":          "certificatesigningrequests=CertificateSigningRequest clustertrustbundles=ClusterTrustBundle podcertificaterequests=PodCertificateRequest",
		"coordination.k8s.io/v1":          "leases=Lease",
		"discovery.k8s.io/v1":             "endpointslices=EndpointSlice",
		"flowcontrol.apiserver.k8s.io/v1": "flowschemas=FlowSchema prioritylevelconfigurations=PriorityLevelConfiguration",
		"networking.k8s.io/v1":            "ingressclasses=IngressClass ingresses=Ingress ipaddresses=IPAddress networkpolicies=NetworkPolicy servicecidrs=ServiceCIDR",
		"node.k8s.io/v1":                  "runtimeclasses=RuntimeClass",
		"policy/v1":                       "poddisruptionbudgets=PodDisruptionBudget",
		"rbac.authorization.k8s.io/v1":    "clusterrolebindings=ClusterRoleBinding clusterroles=ClusterRole rolebindings=RoleBinding roles=Role",
		"resource.k8s.io/v1": "deviceclasses=DeviceClass devicetaintrules=DeviceTaintRule resourceclaims=ResourceClaim " +
			"resourceclaimtemplates=ResourceClaimTemplate resourceslices=ResourceSlice",
		"scheduling.k8s.io/v1": "priorityclasses=PriorityClass",
		"storage.k8s.io/v1": "csidrivers=CSIDriver csinodes=CSINode csistoragecapacities=CSIStorageCapacity storageclasses=StorageClass " +
			"volumeattachments=VolumeAttachment volumeattributesclasses=VolumeAttributesClass",
		"storagemigration.k8s.io/v1": "storageversionmigrations=StorageVersionMigration",
	} {
		group, version, _ := strings.Cut(group, "/")
		gv := schema.GroupVersion{Group: group, Version: version}
		for _, pair := range strings.Fields(resources) {
			resource, kind, _ := strings.Cut(pair, "=")
			out[gv.WithResource(resource).GroupResource()] = gv.WithKind(kind)
		}
	}
	return out
}

// TestColumns makes objects, prints them with upstream's code and runs keelson's tests to compare.
func TestColumns(t *testing.T) {
	dir := t.TempDir()
	n := *rounds
	if *record {
		dir, n = filepath.Join(root, cases), kept
	}
	for resource, gvk := range kinds() {
		synctest.Test(t, func(t *testing.T) { // where time stands still, which keeps ages constant
			made := table{Now: time.Now().UTC()}
			for _, obj := range append(byHand(t, gvk), atRandom(t, gvk, n)...) {
				made.add(t, resource, obj)
			}
			made.write(t, filepath.Join(dir, resource.String()+".json"))
		})
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "go", "test", "./"+tests, "-count=1", "-run", "^TestTables$", "-tables", dir)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("keelson prints otherwise: %v\n%s", err, out)
	}
}

// add prints one object with upstream's code, as its API server does for a client.
func (t *table) add(test *testing.T, resource schema.GroupResource, obj runtime.Object) {
	test.Helper()
	obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	data, err := json.Marshal(obj)
	if err != nil {
		test.Fatal(err)
	}
	// Both print what is in the file: a time that is set to null is unset.
	read := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(runtime.Object)
	if err := json.Unmarshal(data, read); err != nil {
		test.Fatal(err)
	}
	internal, err := legacyscheme.Scheme.ConvertToVersion(read, runtime.InternalGroupVersioner)
	if err != nil {
		test.Fatalf("%s: %v\n%s", resource, err, data)
	}
	made, err := printers.NewTableGenerator().With(printersinternal.AddHandlers).GenerateTable(internal, printers.GenerateOptions{Wide: true})
	if resource.Resource == "csistoragecapacities" || // whose server does not use its printer
		err != nil && strings.HasPrefix(err.Error(), "no table handler registered") {
		made, err = rest.NewDefaultTableConvertor(resource).ConvertToTable(context.Background(), internal, nil)
	}
	if err != nil || len(made.Rows) != 1 {
		test.Fatalf("%s: %d rows, error %v\n%s", resource, len(made.Rows), err, data)
	}
	t.Definitions = made.ColumnDefinitions
	t.Rows = append(t.Rows, row{data, made.Rows[0].Cells, made.Rows[0].Conditions})
}

// write writes a line for every column and every row.
func (t *table) write(test *testing.T, file string) {
	test.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	part := func(before string, v any) {
		b.WriteString(before)
		if err := e.Encode(v); err != nil {
			test.Fatal(err)
		}
	}
	part(`{"now":`, t.Now)
	for n, d := range t.Definitions {
		part([]string{",\"definitions\":[\n", ","}[min(n, 1)], d)
	}
	for n, r := range t.Rows {
		part([]string{"],\"rows\":[\n", ","}[min(n, 1)], r)
	}
	b.WriteString("]}\n")
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		test.Fatal(err)
	}
}

// byHand reads the objects of a kind from testdata, as a list of YAML documents. Times in them are relative.
func byHand(t *testing.T, gvk schema.GroupVersionKind) []runtime.Object {
	t.Helper()
	file := filepath.Join("testdata", strings.ToLower(gvk.Kind)+".yaml")
	text, err := os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for n, document := range strings.Split(ago(string(text), time.Now()), "\n---\n") {
		obj, err := legacyscheme.Scheme.New(gvk)
		if err == nil {
			err = yaml.UnmarshalStrict([]byte(document), obj)
		}
		if err != nil {
			t.Fatalf("%s, document %d: %v", file, n+1, err)
		}
		accessor, err := meta.Accessor(obj)
		if err != nil {
			t.Fatal(err)
		}
		if accessor.GetName() == "" {
			accessor.SetName(fmt.Sprintf("by-hand-%d", n+1))
		}
		objects = append(objects, obj)
	}
	return objects
}

// ago replaces terms such as ago(5m) by the time.
func ago(text string, now time.Time) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "ago(")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		word, after, _ := strings.Cut(rest, ")")
		d, err := time.ParseDuration(word)
		if err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "%q", now.Add(-d).UTC().Format(metav1.RFC3339Micro))
		text = after
	}
}
