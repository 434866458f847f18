package depcheck_test

// their import closures.
func behind() map[string][]string {
	kind := []string{"informer", "registry", "registry/codec", "registry/internal/check", "registry/internal/ordered", "storage"}
	return map[string][]string{
		"admission":                                      {"authn"},
		"admission/alwaysadmit":                          {"admission", "authn"},
		"admission/alwaysdeny":                           {"admission", "authn"},
		"admission/alwayspullimages":                     {"admission", "admission/internal/pods", "authn"},
		"admission/denyserviceexternalips":               {"admission", "authn"},
		"admission/eventratelimit":                       {"admission", "authn"},
		"admission/extendedresourcetoleration":           {"admission", "authn"},
		"admission/initializers":                         {"admission", "authn", "authz"},
		"admission/internal/pods":                        {"admission", "authn"},
		"admission/limitpodhardantiaffinitytopology":     {"admission", "admission/internal/pods", "authn"},
		"admission/namespaceautoprovision":               {"admission", "authn"},
		"admission/namespaceexists":                      {"admission", "authn"},
		"admission/nodedeclaredfeaturevalidator":         {"admission", "admission/internal/pods", "authn", "podspec/features", "podspec/restart"},
		"admission/ownerreferencespermissionenforcement": {"admission", "authn", "authz"},
		"admission/podnodeselector":                      {"admission", "admission/internal/pods", "authn"},
		"admission/podresizevalidator":                   {"admission", "admission/internal/pods", "authn"},
		"admission/podtolerationrestriction":             {"admission", "admission/internal/pods", "authn", "podspec/qos"},
		"admission/podtopologylabels":                    {"admission", "authn"},
		"admission/defaultingressclass":                  {"admission", "authn"},
		"admission/defaultstorageclass":                  {"admission", "authn"},
		"admission/defaulttolerationseconds":             {"admission", "authn"},
		"admission/imagepolicywebhook":                   {"admission", "authn"},
		"admission/imagepolicywebhook/remote":            {"admission", "admission/imagepolicywebhook", "authn", "internal/jsonpost"},
		"admission/limitranger":                          {"admission", "authn"},
		"admission/namespacelifecycle":                   {"admission", "authn"},
		"admission/noderestriction":                      {"admission", "authn", "authz", "internal/apireference", "internal/signingrequest"},
		"admission/podsecurity":                          {"admission", "authn"},
		"admission/priority":                             {"admission", "authn"},
		"admission/runtimeclass":                         {"admission", "authn"},
		"admission/serviceaccount":                       {"admission", "authn"},
		"admission/taintnodesbycondition":                {"admission", "authn"},
		"admission/internal/expressions":                 {"authn", "authz", "authz/selector"},
		"admission/internal/matching":                    {"admission", "authn"},
		"admission/policy":                               {"admission", "admission/internal/matching", "authn", "internal/jsonpatch"},
		"admission/policy/typecheck":                     {},
		"admission/policy/cel":                           {"admission", "admission/internal/expressions", "admission/internal/matching", "admission/policy", "authn", "authz", "authz/selector", "internal/jsonpatch"},
		"admission/webhook":                              {"admission", "admission/internal/matching", "authn", "internal/jsonpatch"},
		"admission/webhook/cel":                          {"admission", "admission/internal/expressions", "admission/internal/matching", "admission/webhook", "authn", "authz", "authz/selector", "internal/jsonpatch"},
		"admission/status":                               {"admission", "authn"},
		"admission/webhook/handler":                      {"admission", "admission/internal/matching", "admission/status", "admission/webhook", "authn", "internal/jsonpatch"},
		"admission/webhook/inprocess":                    {"admission", "admission/internal/matching", "admission/webhook", "admission/webhook/internal/post", "authn", "internal/jsonpatch"},
		"admission/webhook/internal/post":                {},
		"admission/webhook/remote":                       {"admission", "admission/internal/matching", "admission/webhook", "admission/webhook/internal/post", "authn", "internal/jsonpatch"},
		"authn":                                          {},
		"authn/authntest":                                {"authn", "authn/internal/watched", "authn/token"},
		"authn/basic":                                    {"authn", "authn/internal/watched", "authn/token"},
		"authn/inprocess":                                {"authn", "authn/internal/watched", "authn/token"},
		"authn/webhook/remote":                           {"authn", "authn/token", "authn/webhook", "internal/jsonpost"},
		"authz/webhook/cel":                              {"authn", "authz", "authz/webhook"},
		"authz/webhook/remote":                           {"authn", "authz", "authz/webhook", "internal/jsonpost"},
		"authn/oidc":                                     {"authn", "authn/token"},
		"authn/oidc/cel":                                 {"authn", "authn/oidc", "authn/token"},
		"authn/requestheader":                            {"authn", "authn/internal/watched", "authn/x509"},
		"authn/serviceaccount":                           {"authn"},
		"authn/token":                                    {"authn", "authn/internal/watched", "authn/token"},
		"authn/tokenfile":                                {"authn", "authn/internal/watched", "authn/token"},
		"authn/x509":                                     {"authn", "authn/internal/watched", "authn/token"},
		"authz":                                          {"authn"},
		"authz/abac":                                     {"authn", "authz"},
		"authz/alwaysallow":                              {"authn", "authz"},
		"authz/alwaysdeny":                               {"authn", "authz"},
		"authz/authztest":                                {"authn", "authz"},
		"authz/node":                                     {"authn", "authz"},
		"authz/rbac":                                     {"authn", "authz"},
		"authz/rbac/bootstrap":                           {"authn", "authz", "authz/rbac", "client"},
		"authz/selector":                                 {"authn", "authz"},
		"authz/signer":                                   {"authn", "authz"},
		"authz/superuser":                                {"authn", "authz"},
		"client":                                         {},
		"client/discovery":                               {"client"},
		"client/faults":                                  {"client"},
		"client/generate":                                {},
		"client/kubeconfig":                              {"internal/boundedyaml"},
		"client/manifest":                                {"internal/boundedyaml"},
		"client/printer":                                 {"internal/boundedyaml"},
		"client/rest":                                    {"client", "internal/restclient"},
		"controllers":                                    {"lifecycle"},
		"controllers/cronjob":                            {"client", "controllers", "controllers/ownership", "events", "informer", "internal/cronschedule", "lifecycle"},
		"controllers/daemonset":                          {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/batch", "controllers/internal/pods", "controllers/internal/revisions", "events", "informer", "lifecycle"},
		"controllers/deployment":                         {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/pods", "events", "informer", "lifecycle"},
		"controllers/endpoints":                          {"client", "controllers", "controllers/internal/backends", "controllers/expectations", "controllers/ownership", "controllers/internal/pods", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/endpointslice":                      {"client", "controllers", "controllers/internal/backends", "controllers/internal/endpointslices", "controllers/ownership", "controllers/internal/pods", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/endpointslicemirroring":             {"client", "controllers", "controllers/internal/backends", "controllers/internal/endpointslices", "controllers/ownership", "controllers/internal/pods", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/loadbalancer":                       {"client", "controllers", "events", "informer", "lifecycle"},
		"controllers/nodeipam":                           {"client", "controllers", "events", "informer", "lifecycle"},
		"controllers/servicecidrs":                       {"client", "controllers", "events", "informer", "lifecycle"},
		"controllers/job":                                {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/batch", "controllers/internal/pods", "controllers/internal/rank", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/leaderelection":                     {"client", "controllers", "events", "internal/pause", "lifecycle"},
		"controllers/reconciler":                         {"controllers", "lifecycle"},
		"controllers/replicaset":                         {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/batch", "controllers/internal/pods", "controllers/internal/rank", "controllers/internal/replicas", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/replicationcontroller":              {"client", "controllers", "controllers/expectations", "controllers/ownership", "controllers/internal/batch", "controllers/internal/pods", "controllers/internal/rank", "controllers/internal/replicas", "events", "informer", "lifecycle", "podspec/restart"},
		"controllers/storageversionmigrator":             {"client", "controllers", "informer", "lifecycle"},
		"cri/runtimetest":                                {"cri"},
		"cri/simulated":                                  {"cri", "internal/inmemory"},
		"cri/streams":                                    {"cri"},
		"events":                                         {},
		"dns":                                            {"informer"},
		"dns/server":                                     {"dns", "informer", "lifecycle"},
		"events/publish":                                 {"client", "events"},
		"informer":                                       {},
		"informer/clientgo":                              {"informer"},
		"informer/clientgo/factory":                      {"informer", "informer/clientgo"},
		"informer/controllerruntime":                     {"informer", "informer/clientgo"},
		"informer/lag":                                   {"informer"},
		"informer/memory":                                {"informer"},
		"informer/wire":                                  {"informer", "internal/restclient"},
		"internal/atomicfile":                            {},
		"kubelet":                                        {"client", "cri", "events", "informer", "internal/pause", "kubelet/decision", "kubelet/environment/expansion", "kubelet/security", "lifecycle", "podspec/features", "podspec/origin", "podspec/qos", "podspec/restart"},
		"kubelet/decision":                               {"cri", "podspec/qos", "podspec/restart"},
		"lifecycle":                                      {},
		"pki":                                            {},
		"registry/admissionregistration":                 kind,
		"registry/admissionregistration/v1alpha1":        kind,
		"registry/apiextensions":                         kind,
		"registry/allocation":                            {"informer", "registry", "registry/codec", "registry/internal/ordered", "storage"},
		"registry/apiregistration":                       kind,
		"registry/autoscaling":                           append(kind, "podspec", "podspec/qos", "podspec/restart", "podspec/signername"),
		"registry/certificates":                          append(kind, "authn", "authz", "authz/signer", "internal/signingrequest", "podspec/signername"),
		"registry/codec":                                 {},
		"registry/coordination":                          kind,
		"podspec":                                        {"podspec/qos", "podspec/restart", "podspec/signername"},
		"podspec/critical":                               {"podspec/origin"},
		"podspec/features":                               {"podspec/restart"},
		"podspec/origin":                                 {},
		"podspec/qos":                                    {},
		"podspec/restart":                                {},
		"podspec/signername":                             {},
		"registry/custom":                                append(kind, "registry/apiextensions", "internal/boundedyaml"),
		"registry/discovery":                             kind,
		"flowcontrol":                                    {"authn", "authz"},
		"flowcontrol/fairqueuing":                        {"authn", "authz", "flowcontrol", "informer"},
		"flowcontrol/metrics":                            {"authn", "authz", "flowcontrol", "flowcontrol/fairqueuing", "informer"},
		"registry/flowcontrol":                           append(kind, "authn", "authz", "flowcontrol", "podspec", "podspec/qos", "podspec/restart", "podspec/signername"),
		"registry/flowcontrol/upkeep":                    append(kind, "authn", "authz", "flowcontrol", "podspec", "podspec/qos", "podspec/restart", "podspec/signername", "registry/flowcontrol"),
		"registry/internal/check":                        {},
		"registry/kubernetesservice":                     {"informer", "registry", "registry/allocation", "registry/codec", "registry/internal/check", "registry/internal/ordered", "registry/networking", "storage"},
		"registry/networking":                            kind,
		"registry/policy":                                kind,
		"registry/rbac":                                  kind,
		"registry/scheduling":                            append(kind, "podspec/critical", "podspec/origin"),
		"registry/resource":                              append(kind, "authn", "authz", "podspec", "podspec/qos", "podspec/restart", "podspec/signername"),
		"registry/resource/selectors":                    {},
		"registry/storage":                               append(kind, "podspec", "podspec/qos", "podspec/restart", "podspec/signername"),
		"registry/storagemigration":                      kind,
		"scheduler":                                      {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/budgets":                              {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/groups":                               {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/plugins":                              {"client", "events", "informer", "internal/pause", "podspec/features", "podspec/restart", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/groups", "scheduler/internal/retry", "scheduler/queue", "scheduler/signature", "scheduler/volumes"},
		"scheduler/decisions":                            {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/extender":                             {"client", "events", "informer", "internal/pause", "podspec/features", "podspec/restart", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/groups", "scheduler/internal/retry", "scheduler/plugins", "scheduler/queue", "scheduler/signature", "scheduler/volumes"},
		"scheduler/queue":                                {},
		"scheduler/schedulerconfig":                      {"client", "events", "informer", "internal/boundedyaml", "internal/configfile", "internal/pause", "podspec/features", "podspec/restart", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/extender", "scheduler/groups", "scheduler/internal/retry", "scheduler/plugins", "scheduler/queue", "scheduler/signature", "scheduler/volumes"},
		"scheduler/signature":                            {},
		"scheduler/devices":                              {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/volumes":                              {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/whatif":                               {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"scheduler/whatif/load":                          {"client", "client/manifest", "events", "informer", "informer/memory", "internal/boundedyaml", "internal/pause", "podspec/features", "podspec/restart", "scheduler", "scheduler/budgets", "scheduler/devices", "scheduler/groups", "scheduler/internal/retry", "scheduler/plugins", "scheduler/queue", "scheduler/signature", "scheduler/volumes"},
		"scheduler/schedulertest":                        {"client", "events", "informer", "internal/pause", "podspec/restart", "scheduler", "scheduler/internal/retry", "scheduler/queue"},
		"storage":                                        {},
		"storage/internal/bulk":                          {"storage"},
		"storage/memory":                                 {"storage", "storage/internal/timeline"},
		"storage/snapshot":                               {"storage", "storage/internal/bulk"},
		"storage/storagetest":                            {"storage"},
		"storage/transfer":                               {"storage", "storage/internal/bulk"},
		"storage/wal":                                    {"storage", "storage/internal/disk", "storage/internal/timeline"},

		// Certificates.
		"authn/bootstraptoken":                    {"authn", "authn/internal/watched", "authn/token", "internal/bootstraptoken"},
		"admission/certificateapproval":           {"admission", "authn", "authz", "authz/signer"},
		"admission/certificatesigning":            {"admission", "authn", "authz", "authz/signer"},
		"admission/certificatesubjectrestriction": {"admission", "authn", "internal/signingrequest"},
		"admission/clustertrustbundleattest":      {"admission", "authn", "authz", "authz/signer"},
		"controllers/csrapproving":                {"client", "controllers", "controllers/internal/csr", "informer", "internal/signingrequest", "lifecycle"},
		"controllers/csrsigning":                  {"client", "controllers", "controllers/internal/csr", "informer", "internal/signingrequest", "lifecycle"},

		"admission/persistentvolumeclaimresize":  {"admission", "authn"},
		"admission/storageobjectinuseprotection": {"admission", "authn"},
	}
}

// limits bounds the number of packages outside the standard library and this module in a package's import closure: the
// row of the package itself, or of the nearest path above it. They are slightly above current needs.
func limits() map[string]int {
	return map[string]int{
		"admission":                           90,
		"admission/admissiontest":             160, // go-cmp and YAML
		"admission/imagepolicywebhook/remote": 110, // client-go's TLS and credentials
		"admission/podsecurity":               95,  // upstream's checks, without the clients and metrics of its server
		"apiserver":                           171,
		"apiserver/aggregator":                172,
		"apiserver/audit":                     90,
		"apiserver/audit/webhook":             160, // client-go's REST client
		"apiserver/connect":                   180, // WebSocket and SPDY
		"apiserver/cors":                      0,
		"apiserver/health":                    0,
		"apiserver/managedfields":             80,
		"apiserver/metrics":                   200, // Prometheus' client
		"authn":                               0,
		"authn/bootstraptoken":                70,  // API types
		"authn/oidc":                          60,  // validation's field errors and go-jose
		"authn/oidc/cel":                      240, // CEL
		"authn/serviceaccount":                75,  // API types and go-jose
		"authn/webhook":                       70,  // API types
		"authz":                               0,
		"authz/node":                          90,
		"authz/rbac":                          90,
		"authz/selector":                      30,
		"authz/webhook":                       70,
		"bench":                               520, // peers has nodes, too
		"client":                              80,
		"client/discovery":                    255, // client-go's discovery knows all kinds of the API
		"client/generate":                     85,  // the names' rules of apimachinery and the grammar of image references
		"client/kubeconfig":                   115,
		"client/manifest":                     85,
		"client/printer":                      85,
		"client/rest":                         120,
		"cluster":                             294, // of which 4 are about devices, 4 are the versions of flow control, 3 are for volumes of CSI drivers that replaced plugins, 8 are for pod security, with the types of jobs, 1 the labels of kubelets, and 22 the streams of simulated nodes: SPDY, WebSocket
		"component":                           90,
		"component/controllermanager":         104, // the types of all kinds that controllers read, the parser of schedules
		"component/remote":                    255, // client-go's discovery knows all kinds of the API
		"cni":                                 0,
		"cni/bridge/announce":                 3,  // notices of new files
		"cni/netns":                           1,  // x/sys, to make and enter namespaces
		"cni/plugins":                         32, // libcni and the tracing that it knows
		"conformance":                         220,
		"controllers":                         90,
		"controllers/controllerstest":         180, // the registry and its patches
		"controllers/reconciler":              620, // controller-runtime
		"controllers/statefulset":             100, // podspec
		"cri":                                 0,
		"cri/internal/wire":                   125, // gRPC and the messages of CRI
		"cri/remote":                          125,
		"cri/serve":                           125,
		"cri/streams":                         24, // SPDY and WebSocket
		"dns":                                 70,
		"flowcontrol":                         63,
		"flowcontrol/fairqueuing":             64,
		"flowcontrol/metrics":                 105, // Prometheus' client
		"dns/server":                          76,  // miekg/dns
		"events":                              90,
		"examples":                            442, // of examples/cluster, one for what a log file may grow to
		"examples/initializer":                448, // a cluster, and a kubeconfig's client with informers
		"examples/assets":                     570, // rules for definitions, CEL, as in examples/cluster
		"examples/controller":                 640, // controller-runtime
		"informer":                            80,
		"informer/clientgo":                   125, // the caches of client-go
		"informer/clientgo/factory":           380, // its clientset
		"informer/controllerruntime":          620, // controller-runtime
		"informer/wire":                       120,
		"internal":                            0,
		"internal/nfnetlink":                  1, // x/sys, which has the numbers of the kernel's interface
		"internal/nft":                        1,
		"internal/demo":                       220,
		"internal/upstream/controlplane":      440, // certificates, kubeconfigs, containerd
		"internal/apireference":               90,  // API types
		"internal/boundedcbor":                6,
		"internal/boundedquantity":            8, // the type of quantities
		"internal/boundedyaml":                6,
		"internal/configfile":                 70, // validation's field errors
		"internal/clusterprocess":             220,
		"internal/cronschedule":               1,   // robfig/cron
		"internal/etcdtest":                   160, // etcd's client
		"internal/fakeroot":                   1,   // golang.org/x/sys
		"internal/kubectlargs":                220,
		"internal/leaktest":                   2,   // goleak
		"internal/linear":                     1,   // porcupine
		"internal/nettest":                    2,   // x/sys
		"internal/otlptest":                   125, // gRPC and the messages of OpenTelemetry
		"internal/provider":                   75,  // definitions and unstructured objects
		"internal/quota":                      90,  // the API's types and its reading of pods' resources
		"internal/restclient":                 120,
		"internal/signingrequest":             70,  // the types of requests
		"internal/bootstraptoken":             70,  // secrets
		"internal/strategicpatch":             145, // apimachinery's reading of the tags of types
		"internal/testserver":                 220,
		"internal/testcluster":                301,
		"internal/transcript":                 150,
		"lifecycle":                           0,
		"storage/tracing":                     9,   // OpenTelemetry's interfaces
		"tracing":                             240, // its exporter, with gRPC
		"kubelet":                             90,
		"kubelet/cgroup":                      100, // the library of cgroups
		"kubelet/prober":                      180, // gRPC and its health protocol
		"kubelet/volume/atomic":               1,   // x/sys
		"kubelet/deviceplugin":                185, // gRPC, the API's types
		"kubelet/deviceplugin/internal":       2,   // upstream's text of values for checksums
		"kubelet/dra":                         180, // gRPC, the API's types
		"kubelet/internal/registrars":         115, // gRPC
		"kubelet/volume/csi":                  240, // gRPC, CSI's own package, the API's types
		"kubelet/volume/internal":             1,
		"kubelet/logs":                        3,
		"node":                                65,
		"node/bundled":                        300,
		"node/certificates":                   70,
		"node/containerd":                     150, // the CRI API, gRPC and libcni
		"node/filelock":                       0,
		"node/host":                           270,
		"node/internal":                       560, // a test kit with clients
		"node/kubeletconfig":                  280,
		"node/localvolumes":                   90,
		"node/nodetools":                      0,
		"node/ociimage":                       0,
		"node/remote":                         120,
		"pki":                                 0,
		"networkpolicy":                       85,
		"overlay":                             85,
		"proxy":                               85,
		"podspec":                             100,
		"podspec/critical":                    70, // API types
		"podspec/features":                    70,
		"podspec/restart":                     70,
		"registry":                            100,
		"registry/apiextensions":              460, // upstream's rules for definitions: CEL, and the clients of webhooks
		"registry/custom":                     465,
		"registry/direct":                     150, // apimachinery's reading of the tags of types, for patches
		"registry/request":                    150,
		"scheduler":                           90,
		"scheduler/devices/structured":        235, // upstream's allocator, CEL
		"scheduler/whatif/load":               105, // apimachinery's decoding
		"storage":                             0,
		"storage/etcd":                        160, // etcd's client, gRPC
		"storage/internal":                    1,   // the B-tree of k8s.io/utils, as the two below
		"storage/memory":                      1,
		"storage/wal":                         1,

		// Upstream's rules for definitions and schemas.
		"cluster/customresources":              550,
		"controllers/customresourcedefinition": 460,
		"examples/cluster":                     700,

		// The types of metrics and of kubelets' summaries.
		"cluster/resourcemetrics": 296,

		// miekg/dns
		"cluster/clusterdns": 300,

		// A cache of rate limiters.
		"cluster/admissionconfig": 304,

		// Client-go's REST client, and the types of audit events.
		"cluster/auditconfig": 305,

		// The types of APIServices, and client-go's headers for proxies.
		"cluster/aggregation": 299,

		// Expressions in CEL, in authentication.
		"cluster/authenticationconfig": 400,
		"cluster/authorizationconfig":  400,
		"authz/webhook/cel":            240,
		"authz/webhook/remote":         125, // client-go's connections
		"authn/webhook/remote":         125,
		"internal/jsonpost":            125,

		// Upstream's evaluation of expressions in CEL.
		"admission/internal/expressions": 270,
		"admission/policy/cel":           270,
		"admission/policy/typecheck":     290,
		"admission/webhook/cel":          270,
		"registry/resource/selectors":    270,
		"cluster/policies":               397,
		"cluster/admit":                  600, // all of that, and custom resources
		"examples/admit":                 600,
		"cluster/webhooks":               396,

		// All of it, and controller-runtime's installation of definitions and webhooks.
		"envtest": 874,

		// The serializer of configuration files; gRPC, for KMS plugins; x/crypto.
		"storage/encryption/config":    210,
		"storage/encryption/kms":       160,
		"storage/encryption/secretbox": 4,
	}
}
