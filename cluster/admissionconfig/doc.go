// Package admissionconfig reads upstream's AdmissionConfiguration, the file of kube-apiserver's --admission-control-config-file, and
// configures the admission plugins of a cluster by it:
//
//	apiVersion: apiserver.config.k8s.io/v1
//	kind: AdmissionConfiguration
//	plugins:
//	- name: PodSecurity
//	  configuration:
//	    apiVersion: pod-security.admission.config.k8s.io/v1
//	    kind: PodSecurityConfiguration
//	    defaults: {enforce: baseline}
//	- name: EventRateLimit
//	  path: limits.yaml
//
// A plugin's configuration stands in the file, or in one of its own, whose path is relative to that of the file. PodSecurity,
// PodNodeSelector, PodTolerationRestriction, EventRateLimit and ImagePolicyWebhook can be configured, and InitialResources, which asks a Prometheus server
// that a kubeconfig file leads to:
//
//	initialResources: {prometheusConfigFile: prometheus.conf, percentile: 90, namespaceOnly: false}
//
// # Errors
//
// Every error is an *Error, which names file, line and field as far as they are known. What a file asks for and no plugin here would
// do is an error: a field, a plugin or a version that is not known, a plugin that takes no configuration.
package admissionconfig
