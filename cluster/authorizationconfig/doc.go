// Package authorizationconfig reads upstream's AuthorizationConfiguration, the file of kube-apiserver's --authorization-config, and
// makes the chain of a cluster's authorizers from it:
//
//	apiVersion: apiserver.config.k8s.io/v1
//	kind: AuthorizationConfiguration
//	authorizers:
//	- type: Node
//	  name: node
//	- type: Webhook
//	  name: policy
//	  webhook:
//	    timeout: 3s
//	    subjectAccessReviewVersion: v1
//	    matchConditionSubjectAccessReviewVersion: v1
//	    failurePolicy: NoOpinion
//	    connectionInfo: {type: KubeConfigFile, kubeConfigFile: /etc/policy/kubeconfig}
//	    matchConditions: [{expression: "!('system:nodes' in request.groups)"}]
//	- type: RBAC
//	  name: rbac
//
// The group system:masters may do everything before the chain is asked. The file is read again when it changes: webhooks may come, go
// and change, and the order may; other authorizers must stay those of the start. What is wrong with the file is logged and counted, and
// what it said before stays in force.
//
// # Errors
//
// Every error of Open is an *Error, or several joined, which names file, line and field as far as they are known, in upstream's words.
// A field that is not known is an error.
package authorizationconfig
