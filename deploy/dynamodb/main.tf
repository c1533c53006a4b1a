# The table of tidegate, and the least rights on it.
#
#   terraform apply -var table_name=tidegate
#   tidegate serve --store "$(terraform output -raw store_url)"
#
# The policy is for the role of whatever runs tidegate: attach `policy_arn` to it.

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

variable "table_name" {
  description = "The name of the table: dynamodb://NAME"
  type        = string
  default     = "tidegate"
}

data "aws_region" "current" {}

resource "aws_dynamodb_table" "tidegate" {
  name         = var.table_name
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "key"

  attribute {
    name = "key"
    type = "S"
  }

  # Identifiers that have not been seen for long are removed by themselves.
  ttl {
    attribute_name = "expires"
    enabled        = true
  }
}

data "aws_iam_policy_document" "tidegate" {
  # What every check needs. A transaction needs the same two rights as its writes.
  statement {
    sid       = "Decide"
    actions   = ["dynamodb:BatchGetItem", "dynamodb:DeleteItem", "dynamodb:PutItem"]
    resources = [aws_dynamodb_table.tidegate.arn]
  }

  # What `tidegate doctor` looks at; limits do without.
  statement {
    sid       = "Doctor"
    actions   = ["dynamodb:DescribeTable", "dynamodb:DescribeTimeToLive"]
    resources = [aws_dynamodb_table.tidegate.arn]
  }
}

resource "aws_iam_policy" "tidegate" {
  name        = "tidegate-${var.table_name}"
  description = "Counts limits in the table ${var.table_name}"
  policy      = data.aws_iam_policy_document.tidegate.json
}

output "policy_arn" {
  description = "Attach this to the role of whatever runs tidegate"
  value       = aws_iam_policy.tidegate.arn
}

output "store_url" {
  description = "The store of tidegate"
  value       = "dynamodb://${aws_dynamodb_table.tidegate.name}?region=${data.aws_region.current.name}"
}
