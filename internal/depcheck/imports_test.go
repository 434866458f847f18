package depcheck_test

// anyone lists packages that every package may import.
func anyone() []string { return []string{"internal/atomicfile", "internal/boundedquantity"} }

// siblings lists, for each path, which packages of other top-level packages the packages below it may import outside
// tests. They are contract roots; exceptions give their reason.
func siblings() map[string][]string {
	return map[string][]string{
		"admission": {"authn", "authz", "authz/signer", "internal/apireference", "internal/quota", "internal/signingrequest",
			"podspec/features", "podspec/qos", // what pods need, and how they are ranked
		},
		"admission/imagepolicywebhook/remote": {"authn", "internal/jsonpost"},
		"admission/internal/expressions":      {"authn", "authz", "authz/selector"}, // expressions may ask who may do what
		"admission/policy":                    {"authn", "internal/jsonpatch"},
		"admission/policy/cel":                {"authn", "authz", "authz/selector", "internal/jsonpatch"},
		"admission/webhook":                   {"authn", "internal/jsonpatch"},
		"admission/webhook/cel":               {"authn", "authz", "authz/selector", "internal/jsonpatch"},
		"apiserver": {"admission", "admission/status", "authn", "authz", "informer", "registry",
			"flowcontrol", "flowcontrol/fairqueuing", // the default is upstream's
			"authz/selector",                      // selectors in requests to authorizers: part of the contract
			"registry/codec",                      // the encodings in which the registry stores and returns objects
			"registry/request", "registry/status", // the meaning of requests, and the answers to clients
			"internal/boundedcbor", "internal/boundedyaml", "internal/upgrade",
		},
		"authn":                       {},
		"authn/bootstraptoken":        {"internal/bootstraptoken"},
		"authn/webhook/remote":        {"internal/jsonpost"},
		"authz/webhook/remote":        {"authn", "internal/jsonpost"},
		"authz":                       {"authn", "client"},
		"bench":                       {everything},
		"client":                      {"internal/restclient", "internal/boundedyaml"},
		"cluster":                     {everything},
		"cni":                         {},
		"component":                   {"authn", "client", "controllers", "events", "events/publish", "informer", "lifecycle"},
		"component/controllermanager": {everything}, // all controllers
		"component/remote":            {"authn", "client", "client/rest", "component", "controllers/leaderelection", "events/publish", "informer", "informer/wire", "lifecycle"},
		"component/kubescheduler":     {"authn", "component", "events", "informer", "lifecycle", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/groups", "scheduler/plugins", "scheduler/volumes"},
		"conformance":                 {everything},
		"controllers": {"client", "events", "informer", "lifecycle", "internal/pause", "internal/quota", "podspec/restart",
			"internal/cronschedule", // of CronJobs
			"internal/signingrequest", "internal/bootstraptoken",
			"authz/rbac", // clusterroleaggregation merges rules as the evaluator reads them
		},
		"controllers/statefulset":     {"client", "events", "informer", "lifecycle", "podspec"}, // defaults of stored revisions
		"controllers/controllerstest": {"client", "client/faults", "events", "informer", "informer/lag", "lifecycle", "registry", "registry/", "storage/memory"},
		"cri":                         {},
		"cri/simulated":               {"internal/inmemory"}, // connections to ports of pods
		"dns":                         {"informer", "lifecycle"},
		"envtest":                     {everything}, // a whole control plane
		"events":                      {"client"},
		"examples":                    {everything},
		"flowcontrol":                 {"authn", "authz", "informer"},
		"informer":                    {"internal/restclient"},
		"internal": {"client", "events", "informer", "lifecycle", // test kits
			"client/generate",                                                               // kubectlargs reads its options
			"pki",                                                                           // etcdtest's certificates
			"node/filelock",                                                                 // etcdtest builds once
			"client/kubeconfig",                                                             // clusterprocess is a client
			"apiserver", "authz/alwaysallow", "registry", "registry/core", "storage/memory", // testserver runs the real thing
		},
		"internal/nettest":               {"cni/netns", "node/nodetools"}, // networks for tests, with the plugins of nodes
		"internal/demo":                  {everything},                    // plays with a whole cluster
		"internal/testcluster":           {everything},                    // serves one
		"internal/upstream/controlplane": {everything},                    // runs a cluster of other programs
		"kubelet": {"authn", "authz", "client", "cri", "events", "informer", "lifecycle", "internal/apireference", "internal/boundedyaml", "internal/pause", "internal/upgrade",
			"podspec/critical", "podspec/features", "podspec/origin", "podspec/qos", "podspec/restart"},
		"lifecycle":          {},
		"node":               {"authn", "authz", "client", "events", "informer", "kubelet/objects"},
		"node/bundled":       {"cni/bridge", "cni/bridge/announce", "cri", "cri/remote", "internal/pause", "kubelet", "kubelet/eviction", "kubelet/garbage", "kubelet/security", "lifecycle"},
		"node/certificates":  {"client"},
		"node/containerd":    {"node/filelock", "internal/pause"},
		"node/filelock":      {"internal/pause"},
		"node/host":          {"client", "cri", "informer", "kubelet", "kubelet/", "lifecycle", "podspec", "podspec/origin"},
		"node/internal":      {everything}, // a test kit, with a cluster
		"node/kubeletconfig": {"kubelet/eviction", "kubelet/garbage", "kubelet/pinning", "kubelet/pinning/", "node/host", "internal/configfile"},
		"node/localvolumes":  {"kubelet/volume"}, // whose removal of directories stops at mounts
		"node/nodetools":     {},
		"node/ociimage":      {},
		"node/remote":        {"authn/token", "authn/webhook", "authz/webhook", "client", "client/rest", "events/publish", "informer", "informer/wire", "kubelet/objects", "lifecycle"},
		"networkpolicy":      {"informer", "internal/nfnetlink", "internal/nft"}, // the kernel's language
		"overlay":            {"informer", "lifecycle"},
		"pki":                {},
		"podspec":            {},
		"proxy":              {"informer", "internal/nfnetlink"},
		"proxy/healthcheck":  {"events"}, // of ports that cannot be opened
		"registry": {"authn", "authz", "informer", "podspec", "podspec/", "storage",
			"authz/selector",                          // the review kinds read selectors as requests carry them
			"authz/signer", "internal/signingrequest", // who may sign which requests for certificates
			"flowcontrol", // the objects that every API server keeps
		},
		"registry/batch":            {"podspec", "internal/cronschedule"}, // messages about schedules
		"registry/custom":           {"internal/boundedyaml"},             // definitions in files
		"registry/direct":           {"authn", "client"},
		"registry/request":          {"authz/selector", "internal/jsonpatch", "internal/strategicpatch"},
		"scheduler":                 {"client", "events", "informer", "internal/pause", "podspec/features", "podspec/restart"},
		"scheduler/schedulerconfig": {"internal/configfile"},
		"scheduler/whatif/load":     {"client", "client/manifest", "informer", "informer/memory"}, // objects of a server, or in files
		"storage":                   {"internal/pause", "internal/boundedyaml"},
		"tracing":                   {"internal/configfile"},
	}
}

// behind lists, for packages that are imported alone or that others build on, which packages of this module may be in
// leaves lists heavy or third-party imports, by prefix, with the only packages that may import them; one that ends in
// "/" stands for all packages below it. Tests may import anything.
func leaves() map[string][]string {
	return map[string][]string{
		"k8s.io/kubernetes": {}, // only the conformance module knows upstream's implementation
		"k8s.io/apiserver": { // the types of policies and events; CEL
			"admission/internal/expressions", "admission/policy/cel", "admission/policy/typecheck", "admission/webhook/cel", "apiserver/audit", "apiserver/audit/webhook", "authn/oidc/cel", "authz/webhook/cel", "registry/apiextensions",
			"registry/custom", "registry/resource/selectors",
			"cluster/admit", // is told the annotations of events
		},
		// The compiler of selectors, names and counts of what is allocated, the allocator.
		"k8s.io/dynamic-resource-allocation": {"registry/resource/selectors", "kubelet/dra", "scheduler/devices", "scheduler/devices/structured"},
		"k8s.io/apiextensions-apiserver": {
			"registry/apiextensions", "registry/custom", "registry/custom/review", "controllers/customresourcedefinition", "cluster/customresources",
			"cluster/admit", // waits until definitions are served
			"envtest", "internal/provider", "bench/peers",
		},
		"k8s.io/kube-aggregator":        {"registry/apiregistration", "apiserver/aggregator", "controllers/apiservice", "cluster/aggregation"}, // the types of APIServices
		"k8s.io/kube-openapi":           {"admission/policy/typecheck", "apiserver/aggregator", "registry/apiextensions", "registry/custom"},
		"k8s.io/klog/v2":                {},
		"k8s.io/pod-security-admission": {"admission/podsecurity"},
		"go.etcd.io":                    {"storage/etcd", "internal/etcdtest"},
		"github.com/robfig/cron/v3":     {"internal/cronschedule"},
		// Aliases multiply the size of a text, so only one package follows them, within limits.
		"sigs.k8s.io/yaml":                  {"internal/boundedyaml"},
		"go.yaml.in":                        {"internal/boundedyaml"},
		"gopkg.in/yaml.v2":                  {},
		"gopkg.in/yaml.v3":                  {},
		"k8s.io/apimachinery/pkg/util/yaml": {},
		// These accept YAML where JSON is meant. Packages that import them must check with boundedyaml first.
		"k8s.io/apimachinery/pkg/runtime/serializer": {"storage/encryption/config", "internal/boundedcbor", "internal/restclient", "internal/transcript", "scheduler/whatif/load"},
		"k8s.io/client-go/tools/clientcmd":           {"client/kubeconfig"},
		"github.com/container-storage-interface":     {"kubelet/volume/csi"},
		"google.golang.org/grpc":                     {"cri/internal/wire", "cri/remote", "cri/serve", "node/containerd", "internal/otlptest", "kubelet/deviceplugin", "kubelet/internal/registrars", "kubelet/prober", "kubelet/volume/csi", "storage/encryption/kms", "storage/encryption/kms/kmstest", "storage/etcd"},
		"go.opentelemetry.io":                        {"apiserver/tracing", "internal/otlptest", "storage/tracing", "tracing"},
		"github.com/miekg/dns":                       {"dns/server"},
		"github.com/vishvananda":                     {"overlay/rtnetlink"},
		"sigs.k8s.io/controller-runtime":             {"controllers/reconciler", "envtest", "examples/controller", "informer/controllerruntime"},
		"github.com/google/go-cmp":                   {"admission/admissiontest"},
		"testing":                                    {"admission/admissiontest", "admission/initialresources/historytest", "cluster/admit/admittest", "internal/", "node/containerd/containerdtest", "node/internal/", "storage/storagetest", "authn/authntest", "authz/authztest", "cri/runtimetest", "cni/cnitest", "client/clienttest", "controllers/controllerstest", "informer/informertest", "registry/registrytest", "proxy/proxytest", "networkpolicy/policytest", "flowcontrol/flowcontroltest"},
	}
}
