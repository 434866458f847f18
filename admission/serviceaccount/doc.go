// Package serviceaccount is upstream's admission plugin ServiceAccount: every pod runs as a
// service account that exists, "default" unless it says otherwise; the account's token, the
// cluster's CA certificate and the namespace's name are mounted into its containers as one
// projected volume; and the account's image pull secrets are the pod's if it has none.
//
// Mirror pods, which stand for what a node runs by itself, get none of this and may refer to
// neither service accounts nor secrets. A service account with the annotation
// kubernetes.io/enforce-mountable-secrets limits its pods to the secrets that it lists.
//
// # Errors
//
// Refusals are an admission.ErrForbidden. An account that is missing in the cache is looked for
// with Options.Live; the account "default", which a controller makes soon after its namespace,
// is looked for up to ten times, 100 ms apart, unless the context ends.
//
// A Plugin may be used by many requests at once.
package serviceaccount
