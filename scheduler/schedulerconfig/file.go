package schedulerconfig

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// file is a KubeSchedulerConfiguration.
type file struct {
	metav1.TypeMeta

	Parallelism              *int32     `json:"parallelism"`
	LeaderElection           election   `json:"leaderElection"`
	ClientConnection         connection `json:"clientConnection"`
	PercentageOfNodesToScore *int32     `json:"percentageOfNodesToScore"`
	PodInitialBackoffSeconds *int64     `json:"podInitialBackoffSeconds"`
	PodMaxBackoffSeconds     *int64     `json:"podMaxBackoffSeconds"`
	Profiles                 []profile  `json:"profiles"`
	Extenders                []extended `json:"extenders"`
	DelayCacheUntilActive    *bool      `json:"delayCacheUntilActive"`

	EnableProfiling           *bool `json:"enableProfiling"`
	EnableContentionProfiling *bool `json:"enableContentionProfiling"`
}

type election struct {
	LeaderElect       *bool           `json:"leaderElect"`
	LeaseDuration     metav1.Duration `json:"leaseDuration"`
	RenewDeadline     metav1.Duration `json:"renewDeadline"`
	RetryPeriod       metav1.Duration `json:"retryPeriod"`
	ResourceLock      string          `json:"resourceLock"`
	ResourceName      string          `json:"resourceName"`
	ResourceNamespace string          `json:"resourceNamespace"`
}

type connection struct {
	Kubeconfig         string  `json:"kubeconfig"`
	AcceptContentTypes string  `json:"acceptContentTypes"`
	ContentType        string  `json:"contentType"`
	QPS                float32 `json:"qps"`
	Burst              int32   `json:"burst"`
}

type profile struct {
	SchedulerName            *string        `json:"schedulerName"`
	PercentageOfNodesToScore *int32         `json:"percentageOfNodesToScore"`
	Plugins                  pluginSets     `json:"plugins"`
	PluginConfig             []pluginConfig `json:"pluginConfig"`
}

type pluginConfig struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

// pluginSets are the plugins by extension point.
type pluginSets struct {
	PreEnqueue pluginSet `json:"preEnqueue"`
	QueueSort  pluginSet `json:"queueSort"`
	PreFilter  pluginSet `json:"preFilter"`
	Filter     pluginSet `json:"filter"`
	PostFilter pluginSet `json:"postFilter"`
	PreScore   pluginSet `json:"preScore"`
	Score      pluginSet `json:"score"`
	Reserve    pluginSet `json:"reserve"`
	Permit     pluginSet `json:"permit"`
	PreBind    pluginSet `json:"preBind"`
	Bind       pluginSet `json:"bind"`
	PostBind   pluginSet `json:"postBind"`
	MultiPoint pluginSet `json:"multiPoint"`
	groupSets
}

// groupSets are the plugins about groups of pods.
type groupSets struct {
	PlacementGenerate  pluginSet `json:"placementGenerate"`
	PlacementScore     pluginSet `json:"placementScore"`
	PodGroupPostFilter pluginSet `json:"podGroupPostFilter"`
}

type pluginSet struct {
	Enabled  []plugin `json:"enabled"`
	Disabled []plugin `json:"disabled"`
}

type plugin struct {
	Name   string `json:"name"`
	Weight *int32 `json:"weight"`
}

// extended is an extender.
type extended struct {
	URLPrefix        string          `json:"urlPrefix"`
	FilterVerb       string          `json:"filterVerb"`
	PreemptVerb      string          `json:"preemptVerb"`
	PrioritizeVerb   string          `json:"prioritizeVerb"`
	Weight           int64           `json:"weight"`
	BindVerb         string          `json:"bindVerb"`
	EnableHTTPS      bool            `json:"enableHTTPS"`
	TLSConfig        *tlsFiles       `json:"tlsConfig"`
	HTTPTimeout      metav1.Duration `json:"httpTimeout"`
	NodeCacheCapable bool            `json:"nodeCacheCapable"`
	ManagedResources []managed       `json:"managedResources"`
	Ignorable        bool            `json:"ignorable"`
}

type managed struct {
	Name               string `json:"name"`
	IgnoredByScheduler bool   `json:"ignoredByScheduler"`
}

type tlsFiles struct {
	Insecure   bool   `json:"insecure"`
	ServerName string `json:"serverName"`
	CertFile   string `json:"certFile"`
	KeyFile    string `json:"keyFile"`
	CAFile     string `json:"caFile"`
	CertData   []byte `json:"certData"`
	KeyData    []byte `json:"keyData"`
	CAData     []byte `json:"caData"`
}

// The arguments of plugins.

type preemptionArgs struct {
	metav1.TypeMeta

	MinCandidateNodesPercentage *int32 `json:"minCandidateNodesPercentage"`
	MinCandidateNodesAbsolute   *int32 `json:"minCandidateNodesAbsolute"`
}

type interPodAffinityArgs struct {
	metav1.TypeMeta

	HardPodAffinityWeight              *int32 `json:"hardPodAffinityWeight"`
	IgnorePreferredTermsOfExistingPods bool   `json:"ignorePreferredTermsOfExistingPods"`
}

type fitArgs struct {
	metav1.TypeMeta

	IgnoredResources      []string         `json:"ignoredResources"`
	IgnoredResourceGroups []string         `json:"ignoredResourceGroups"`
	ScoringStrategy       *scoringStrategy `json:"scoringStrategy"`
}

type scoringStrategy struct {
	Type                     string         `json:"type"`
	Resources                []resourceSpec `json:"resources"`
	RequestedToCapacityRatio *ratio         `json:"requestedToCapacityRatio"`
}

type resourceSpec struct {
	Name   string `json:"name"`
	Weight int64  `json:"weight"`
}

type ratio struct {
	Shape []shapePoint `json:"shape"`
}

type shapePoint struct {
	Utilization int32 `json:"utilization"`
	Score       int32 `json:"score"`
}

type spreadArgs struct {
	metav1.TypeMeta

	DefaultConstraints []corev1.TopologySpreadConstraint `json:"defaultConstraints"`
	DefaultingType     string                            `json:"defaultingType"`
}

type balancedArgs struct {
	metav1.TypeMeta

	Resources []resourceSpec `json:"resources"`
}

type volumeBindingArgs struct {
	metav1.TypeMeta

	BindTimeoutSeconds *int64       `json:"bindTimeoutSeconds"`
	Shape              []shapePoint `json:"shape"`
}

type dynamicResourcesArgs struct {
	metav1.TypeMeta

	FilterTimeout  *metav1.Duration `json:"filterTimeout"`
	BindingTimeout *metav1.Duration `json:"bindingTimeout"`
}

type nodeAffinityArgs struct {
	metav1.TypeMeta

	AddedAffinity *corev1.NodeAffinity `json:"addedAffinity"`
}
