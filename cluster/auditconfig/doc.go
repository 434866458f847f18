// Package auditconfig audits a cluster's requests by upstream's files: an audit.k8s.io/v1 Policy, as for kube-apiserver's
// --audit-policy-file, and the kubeconfig file of a webhook that events are posted to, as for --audit-webhook-config-file, with
// the values of the other flags --audit-webhook-*.
//
//	a, err := auditconfig.Open(auditconfig.Options{PolicyFile: "policy.yaml", Webhook: webhook})
//	options.Server.Audit, options.Extensions = a.Log(), append(options.Extensions, a.Extension())
//
// Both files are read again when they change. What is wrong with one is logged and counted, and what it said before stays in force.
// A request is recorded by the policy of when it began; what could not be posted to the old address goes to the new one. The
// metrics are named as those of upstream's other files: apiserver_audit_policy_config_controller_automatic_reloads_total,
// apiserver_audit_webhook_config_controller_automatic_reloads_total, with a status.
//
// # Errors
//
// Errors of Open name the file or the flag. Those of the policy wrap audit.ErrPolicy.
package auditconfig
